"""A transcription server that speaks OpenAI's `/v1/audio/transcriptions`.

What it runs cannot be seen from here, so its transcripts are never cached. A failed call is tried again as often as
the protocol says, each failure said aloud; the last one is the row's.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from pydantic import JsonValue

from ttsbench.core import InvalidInput, Problem
from ttsbench.records.wav import to_pcm16, wav_bytes
from ttsbench.score.asr import Clip
from ttsbench.score.audio import ASR_RATE_HZ, audible_stretches

log = logging.getLogger("ttsbench")


@dataclass(frozen=True)
class EndpointSpec:
    """A model behind a URL."""

    url: str
    """The whole address, `http://host:8000/v1/audio/transcriptions`."""
    model: str
    """Name the server knows it by."""
    fields: Mapping[str, str] = field(default_factory=lambda: {"language": "en", "temperature": "0"})
    """Further form fields."""
    timeout_s: float = 120.0
    """Longest silence of the server within one call."""
    attempts: int = 2
    """Calls per clip before it counts as not recognised."""
    workers: int = 1
    """Calls in flight at once."""
    key_variable: str | None = None
    """Environment variable that holds the bearer token; None where the server asks for none."""

    cacheable: ClassVar[bool] = False

    def pinned(self) -> dict[str, JsonValue]:
        return {
            "engine": "endpoint",
            "url": self.url,
            "model": self.model,
            "fields": dict(self.fields),
            "sent": "16 kHz mono PCM16 WAV",
            "timeout_s": self.timeout_s,
            "attempts": self.attempts,
            "workers": self.workers,
        }

    def found(self) -> dict[str, JsonValue]:
        return {}

    def versions(self) -> dict[str, str]:
        return {}

    def open(self) -> EndpointTranscriber:
        if not self.url.startswith(("http://", "https://")):
            raise InvalidInput(Problem("recogniser url", "an http or https address", repr(self.url)))
        if self.key_variable is not None and self.key_variable not in os.environ:
            raise InvalidInput(Problem(f"environment variable {self.key_variable}", "the server's token", "not set"))
        return EndpointTranscriber(self)


class EndpointTranscriber:
    """Sends the audible stretches of a clip, one call each."""

    def __init__(self, spec: EndpointSpec) -> None:
        self.workers = spec.workers
        self._spec = spec

    def transcribe(self, clip: Clip) -> str:
        return " ".join(self._hear(clip.samples[start:end]) for start, end in audible_stretches(clip.samples))

    def _hear(self, samples: np.ndarray) -> str:
        spec = self._spec
        for attempt in range(1, spec.attempts):
            try:
                return self._call(samples)
            except (OSError, ValueError) as error:
                log.warning("%s: attempt %d of %d failed: %s", spec.url, attempt, spec.attempts, error)
        return self._call(samples)

    def _call(self, samples: np.ndarray) -> str:
        """One call. Raises OSError (HTTP errors and timeouts are among them) or ValueError for an odd answer."""
        spec = self._spec
        fields = {"model": spec.model, "response_format": "json", **spec.fields}
        boundary = secrets.token_hex(16)
        body = _form(fields, wav_bytes(to_pcm16(samples), ASR_RATE_HZ), boundary)
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        if spec.key_variable is not None:
            headers["Authorization"] = f"Bearer {os.environ[spec.key_variable]}"
        request = urllib.request.Request(spec.url, body, headers)
        with urllib.request.urlopen(request, timeout=spec.timeout_s) as response:
            answer = json.loads(response.read())
        if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
            raise ValueError(f"expected an answer with a text, got {str(answer)[:200]}")
        return str(answer["text"]).strip()


def _form(fields: Mapping[str, str], wav: bytes, boundary: str) -> bytes:
    """A multipart form of text fields and one file."""
    head = [f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items()]
    head.append(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="clip.wav"\r\n')
    head.append("Content-Type: audio/wav\r\n\r\n")
    return "".join(head).encode() + wav + f"\r\n--{boundary}--\r\n".encode()

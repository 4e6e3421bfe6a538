"""Speech recognisers behind one small interface.

An `AsrSpec` is data: what a protocol pins. Opening it checks that what is installed is what is pinned, and gives a
`Transcriber`. There is no fallback from one recogniser to another, and nothing is ever downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from pydantic import JsonValue


@dataclass(frozen=True)
class Clip:
    """One row's audio as a recogniser gets it."""

    samples: np.ndarray
    """16 kHz mono float32, shape [samples]."""
    wav_sha256: str
    """Hash of the file it came from."""


class Transcriber(Protocol):
    """Speech in, words out. `transcribe` depends on its clip alone; `workers` threads may call it at once."""

    workers: int

    def transcribe(self, clip: Clip) -> str:
        """The clip's text, as the recogniser writes it; windows of silence give no words."""


class AsrSpec(Protocol):
    """A pinned recogniser."""

    @property
    def cacheable(self) -> bool:
        """Whether what is pinned and found settles what it hears. Who serves an endpoint may change its model."""

    def pinned(self) -> dict[str, JsonValue]:
        """Everything that decides what it hears, as far as a protocol can say it. Touches no file."""

    def found(self) -> dict[str, JsonValue]:
        """What else decides it on this machine: hashes of model files not pinned, the device. Raises InvalidInput."""

    def versions(self) -> dict[str, str]:
        """Versions of the packages it runs on, by name. Raises InvalidInput for one that is not installed."""

    def open(self) -> Transcriber:
        """Check and load it. Raises InvalidInput when something is missing or is not what is pinned."""

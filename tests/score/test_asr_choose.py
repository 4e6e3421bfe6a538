"""Another recogniser by name: the same rules under another id, or an error that says how to write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import ttsbench
from tests.score.runs import spoken, write_run
from ttsbench.core import InvalidInput
from ttsbench.records import read_requests, read_scores
from ttsbench.score.asr.choose import with_recogniser
from ttsbench.score.asr.endpoint import EndpointSpec
from ttsbench.score.asr.transformers_whisper import TransformersWhisperSpec
from ttsbench.score.policy import LongAudio
from ttsbench.score.protocol import find_protocol
from ttsbench.score.transcripts import KnownTranscripts

OFFICIAL = find_protocol("seedtts-official-1")
"""It hears the first 30 s alone."""


def test_another_recogniser_is_another_protocol() -> None:
    """Red when its figures would stand under the published id, or rules other than the recogniser's change."""
    chosen = with_recogniser(OFFICIAL, "endpoint:http://h:1/v1/audio/transcriptions#m")
    assert chosen.id == "seedtts-official-1+endpoint"
    assert chosen.sha256() != OFFICIAL.sha256()
    assert (chosen.text_rule, chosen.failures, chosen.headline) == (
        OFFICIAL.text_rule,
        OFFICIAL.failures,
        OFFICIAL.headline,
    )
    assert chosen.long_audio is LongAudio.WHOLE
    assert isinstance(chosen.asr, EndpointSpec)
    assert (chosen.asr.url, chosen.asr.model) == ("http://h:1/v1/audio/transcriptions", "m")


def test_the_language_is_the_protocols() -> None:
    """Red when Chinese speech is transcribed as English; and a checkpoint of English alone takes no language."""
    chinese = with_recogniser(find_protocol("seedtts-official-1", "zh"), "transformers:some/whisper").asr
    english = with_recogniser(OFFICIAL, "transformers:some/whisper-tiny.en/").asr
    assert isinstance(chinese, TransformersWhisperSpec)
    assert isinstance(english, TransformersWhisperSpec)
    assert (chinese.generate["language"], english.generate) == ("zh", {})


@pytest.mark.parametrize(
    "asr", ["whisper", "whisper:", "wisper:large-v3", "endpoint:localhost#m", "endpoint:http://h/v1"]
)
def test_what_names_no_recogniser_is_refused(asr: str) -> None:
    """Red when half a name is taken for a default."""
    with pytest.raises(InvalidInput, match="--asr"):
        with_recogniser(OFFICIAL, asr)


def test_recorded_transcripts_score_a_run(tmp_path: Path) -> None:
    """As CI does, without a model. Red when they are taken by row and not by what the WAV holds."""
    run = tmp_path / "run"
    run.mkdir()
    write_run(run, [spoken(run, 0, "one two"), spoken(run, 1, "three four")])
    recorded = KnownTranscripts(tmp_path / "heard.jsonl")
    for row, words in ((1, "three five"), (0, "one two")):
        sha256 = read_requests(run).rows[row].wav_sha256
        assert sha256 is not None
        recorded.add(sha256, words)
    ended = ttsbench("score", run, "--only", "wer", "--asr", f"recorded:{tmp_path / 'heard.jsonl'}")
    assert ended.code == 0, ended.err
    stats = read_scores(run).wer["mini-en-1+recorded"].all_rows
    assert stats is not None
    assert stats.corpus_pct == 25

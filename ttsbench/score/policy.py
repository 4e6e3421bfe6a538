"""What a protocol does with rows that cannot be recognised, and which aggregate is its headline.

Public evaluators average over what is left, so that a crash improves the figure. Protocols that copy one do the same in
their headline, to be comparable with it; every result shows the figure with all failures charged beside it.
"""

from __future__ import annotations

from enum import StrEnum

from ttsbench.records import Outcome, WerRecord


class LongAudio(StrEnum):
    """What becomes of audio beyond the 30 s that Whisper sees at once."""

    WHOLE = "whole"
    FIRST_30_S = "first_30_s"


class Failures(StrEnum):
    """Which rows the headline counts, by the words that stand in a protocol."""

    CHARGED = "charged: all reference words deleted, sentence WER 100 %"
    WITHOUT_AUDIO_LEFT_OUT = "rows without audio left out of the headline; silent ones sentence WER 100 %"
    WITHOUT_WORDS_LEFT_OUT = "rows without audio or without a transcript left out of the headline"

    def counts(self, row: WerRecord) -> bool:
        """Whether the headline counts the row. An unscored one has no figure to count, whatever the policy."""
        if row.outcome is Outcome.SCORED:
            return self is not Failures.WITHOUT_WORDS_LEFT_OUT or bool(row.transcript and row.transcript.strip())
        if row.outcome is Outcome.UNSCORED or self is Failures.WITHOUT_WORDS_LEFT_OUT:
            return False
        return self is Failures.CHARGED or row.cause == "silent"


class Headline(StrEnum):
    """The aggregate a protocol is named for, by its name in WerStats."""

    SENTENCE_MEAN = "sentence_mean_pct"
    CORPUS = "corpus_pct"

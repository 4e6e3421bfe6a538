"""A run's rows, each against the clip that it was to sound like.

Similarity is of the whole row, and of its head: a model may begin in the cloned voice and drift, or find it late. A row
that sounds more like another row's clip than like its own has been mixed up, or was cloned poorly. Named and described
voices have no clip, so similarity is undefined for them; how alike the rows of a voice are among themselves, and
whether they stay apart from the run's other voices, can be said of any run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import JsonValue

from ttsbench.records import Coverage, Heading, canonical_sha256
from ttsbench.records.speaker import SpeakerOutcome, SpeakerRow, SpeakerSummary
from ttsbench.score import audio, bootstrap
from ttsbench.score.source import RunSource
from ttsbench.score.speaker import clips, speech
from ttsbench.score.speaker.compare import summarise
from ttsbench.score.speaker.encoder import SpeakerEncoder
from ttsbench.score.speaker.heard import HEAD_S, Heard, References, Unheard, hear
from ttsbench.score.speaker.rows import ALONE, ECHO_X100, NO_CLIP, ONE_CLIP, known, rows_of

SHORT_S = 1.0

Progress = Callable[[int, int], None]
"""Called with (rows done, rows expected) after each row, in row order."""


def judge_speaker(
    source: RunSource, encoder: SpeakerEncoder, progress: Progress | None = None
) -> tuple[tuple[SpeakerRow, ...], SpeakerSummary]:
    """One record for every expected row, in row order, and their aggregates. Writes nothing."""
    references = References(source, encoder)
    found: list[Heard | Unheard] = []
    for _, record in source.rows():
        found.append(hear(source.folder.path, record, references, encoder))
        if progress is not None:
            progress(len(found), source.rows_expected)
    rows = rows_of(source, found, references)
    return rows, _summary(rows, len(references.paths), scorer_of(encoder))


def scorer_of(encoder: SpeakerEncoder) -> dict[str, JsonValue]:
    """Everything that decides the figures."""
    return {
        "encoder": encoder.pinned(),
        "audio": {
            "channels": "mean",
            "resampler": "soxr HQ",
            "rate_hz": audio.ASR_RATE_HZ,
            "silence_dbfs": audio.SILENCE_DBFS,
            "silence_frame_s": audio.FRAME_S,
        },
        "speech": dict(speech.PINNED),
        "min_speech_s": clips.MIN_SPEECH_S,
        "head_s": HEAD_S,
        "short_s": SHORT_S,
        "echo_x100": ECHO_X100,
        "bootstrap": {"resamples": bootstrap.RESAMPLES, "level_pct": bootstrap.LEVEL_PCT, "seed": bootstrap.SEED},
    }


def _summary(rows: Sequence[SpeakerRow], references: int, scorer: dict[str, JsonValue]) -> SpeakerSummary:
    measured = [row for row in rows if row.outcome is SpeakerOutcome.MEASURED]
    compared = [row for row in measured if row.similarity_x100 is not None]
    foreign = [row for row in compared if row.foreign_above_own is not None]
    told = [row for row in measured if row.nearest_voice_is_own is not None]
    nothing = "no row could be measured"
    no_clip, no_other, alone = (NO_CLIP, ONE_CLIP, ALONE) if measured else (nothing,) * 3
    one_voice = "no voice has other measured rows, or the run has one voice" if measured else nothing
    return SpeakerSummary(
        coverage=Coverage.of((Heading(row.outcome.value), row.cause) for row in rows),
        scorer=scorer,
        scorer_sha256=canonical_sha256(scorer),
        references=references,
        voices=len({row.voice for row in measured}),
        rows_without_reference=len(measured) - len(compared),
        rows_short=sum(row.speech_s is not None and row.speech_s < SHORT_S for row in measured),
        **known(
            no_clip,
            similarity=summarise([row.similarity_x100 for row in compared]),
            head_similarity=summarise([row.head_similarity_x100 for row in compared]),
            rows_echo_suspected=sum(bool(row.echo_suspected) for row in compared) if compared else None,
        ),
        **known(
            no_other if compared else no_clip,
            foreign_similarity=summarise([row.foreign_similarity_x100 for row in foreign]),
            rows_foreign_above_own=sum(bool(row.foreign_above_own) for row in foreign) if foreign else None,
        ),
        **known(alone, consistency=summarise([row.consistency_x100 for row in measured])),
        **known(
            one_voice,
            rows_told_by_voice=len(told) or None,
            rows_nearest_own_voice=sum(bool(row.nearest_voice_is_own) for row in told) if told else None,
        ),
    )

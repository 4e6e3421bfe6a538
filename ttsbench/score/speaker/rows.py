"""From what was heard to one record a row. What cannot be said of a row is null, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttsbench.records import NamedVoiceRecord, ReferenceVoiceRecord, RequestRecord
from ttsbench.records.settings import VoiceRecord
from ttsbench.records.speaker import SpeakerOutcome, SpeakerRow
from ttsbench.score.source import RunSource
from ttsbench.score.speaker.compare import Told, cosine_x100, nearest_foreign, tell_voices
from ttsbench.score.speaker.heard import Heard, References, Unheard, voice_key

ECHO_X100 = 95.0
"""Above it a row may be the prompt itself."""

NO_RECORD = "the row has no record"
NO_CLIP = "n/a: the voice has no reference clip"
ONE_CLIP = "the run has one reference clip"
ALONE = "the only measured row of its voice"
ONE_VOICE = "the run has one voice"


def rows_of(source: RunSource, found: Sequence[Heard | Unheard], references: References) -> tuple[SpeakerRow, ...]:
    """`found` holds one entry per expected row, in row order."""
    among = _among_voices(source, found)
    return tuple(
        _row(index, record, one, references, among.get(index))
        for (index, record), one in zip(source.rows(), found, strict=True)
    )


@dataclass(frozen=True)
class _Place:
    """A heard row among the voices of its run."""

    told: Told
    own: int
    labels: Sequence[str]


def _among_voices(source: RunSource, found: Sequence[Heard | Unheard]) -> dict[int, _Place]:
    """By row index, for the rows that were heard."""
    heard = [
        (index, record.voice, one)
        for (index, record), one in zip(source.rows(), found, strict=True)
        if record is not None and isinstance(one, Heard)
    ]
    labels = {voice_key(voice): _label(voice) for _, voice, _ in heard}
    numbers = {key: number for number, key in enumerate(labels)}
    own = [numbers[voice_key(voice)] for _, voice, _ in heard]
    told = tell_voices(np.array([one.whole for _, _, one in heard]), own)
    names = list(labels.values())
    places = [_Place(among, number, names) for among, number in zip(told, own, strict=True)]
    return {index: place for (index, _, _), place in zip(heard, places, strict=True)}


def _label(voice: VoiceRecord) -> str:
    if isinstance(voice, NamedVoiceRecord):
        return voice.speaker
    return voice.audio if isinstance(voice, ReferenceVoiceRecord) else voice.instruct


def _row(
    index: int, record: RequestRecord | None, one: Heard | Unheard, references: References, place: _Place | None
) -> SpeakerRow:
    fields = known(
        NO_RECORD,
        utterance_id=None if record is None else record.utterance_id,
        status=None if record is None else record.status,
        voice=None if record is None else _label(record.voice),
    )
    if isinstance(one, Unheard):
        unmeasured = "the row is missing" if one.outcome is SpeakerOutcome.MISSING else f"not measured: {one.cause}"
        fields |= _against_clips(None, unmeasured) | _among(None, unmeasured) | known(unmeasured, speech_s=None)
        fields |= {"outcome": one.outcome, "cause": one.cause, "cause_detail": one.detail}
    else:
        assert record is not None  # nothing can be heard of a row without a record
        assert place is not None
        own = references.number(record.voice)
        fields |= _against_clips(None, NO_CLIP) if own is None else _against_clips((one, own, references))
        fields |= _among(place) | known("", speech_s=one.speech_s)
        fields |= {"outcome": SpeakerOutcome.MEASURED, "cause": None, "cause_detail": None}
    return SpeakerRow(row_index=index, **fields)


def _against_clips(heard: tuple[Heard, int, References] | None, reason: str = "") -> dict[str, Any]:
    """A row, the number of its own clip, and all clips; None for `reason`."""
    if heard is None:
        names = ("similarity_x100", "head_similarity_x100", "echo_suspected", *_FOREIGN)
        return known(reason, **dict.fromkeys(names))
    one, own, references = heard
    similarity = cosine_x100(one.whole, references.vectors[own])
    foreign = nearest_foreign(one.whole, references.vectors, own)
    values = (None,) * 3 if foreign is None else (foreign[1], references.paths[foreign[0]], foreign[1] > similarity)
    return known(
        ONE_CLIP,
        similarity_x100=similarity,
        head_similarity_x100=cosine_x100(one.head, references.vectors[own]),
        echo_suspected=similarity > ECHO_X100,
        **dict(zip(_FOREIGN, values, strict=True)),
    )


_FOREIGN = ("foreign_similarity_x100", "foreign_voice", "foreign_above_own")
_NEAREST = ("nearest_voice", "nearest_voice_is_own")


def _among(place: _Place | None, reason: str = ALONE) -> dict[str, Any]:
    """A row among the voices of its run; None for `reason`."""
    if place is None or place.told.consistency_x100 is None:
        return known(reason, consistency_x100=None, **dict.fromkeys(_NEAREST))
    consistency = {"consistency_x100": place.told.consistency_x100}
    if place.told.nearest is None:
        return consistency | known(ONE_VOICE, **dict.fromkeys(_NEAREST))
    nearest = place.told.nearest
    return consistency | {"nearest_voice": place.labels[nearest], "nearest_voice_is_own": nearest == place.own}


def known(reason: str, **values: object) -> dict[str, Any]:
    """The fields of a record, each null one with `reason`."""
    return values | {f"{name}_missing": reason for name, value in values.items() if value is None}

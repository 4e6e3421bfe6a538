"""What became of each row's audio on its way through one recogniser: the part of a score that no text rule changes.

Rows without usable audio are charged, rows heard before come from the cache, and only then is the recogniser opened. If
it breaks on any row, all rows are heard anew under one setting, one at a time: patching single rows would mix settings
within one figure. Later scorings of such a row's audio go that way at once, and name the failure too.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ttsbench.records import RequestRecord
from ttsbench.records.wer import AsrFailure
from ttsbench.score.asr import Clip, Transcriber
from ttsbench.score.audio import audible_windows
from ttsbench.score.ear import Ear
from ttsbench.score.row_audio import Charge, audio_of
from ttsbench.score.source import RunSource
from ttsbench.score.transcripts import KnownTranscripts, TranscriptCache

log = logging.getLogger("ttsbench")


@dataclass(frozen=True)
class Heard:
    """A transcript."""

    transcript: str
    audio_s: float
    from_cache: bool


@dataclass(frozen=True)
class Broken:
    """The recogniser raised an error, also on its own."""

    error: str
    audio_s: float


Hearing = Charge | Heard | Broken


@dataclass(frozen=True)
class Hearings:
    """A run through one ear."""

    rows: Mapping[int, Hearing]
    """By row index; a row without a record, or one that no protocol wants heard, is not there."""
    first_failure: AsrFailure | None


def hear_rows(
    source: RunSource, ear: Ear, wanted: Collection[int], cache: TranscriptCache | None, step: Callable[[], None]
) -> Hearings:
    """Hear the rows in `wanted`; `step` is called once for every row of the run, when its first hearing is over.

    Raises InvalidInput when the recogniser is not installed as pinned, or the cache cannot be written to; RecordError
    for a damaged cache; OSError for a cache on a full disk.
    """
    opened = functools.cache(ear.asr.open)
    failures = ear.failures(cache)
    broken = {
        index: error
        for index, record in source.log.rows.items()
        if record.wav_sha256 is not None and (error := failures.errors.get(record.wav_sha256)) is not None
    }
    then = "that was in an earlier scoring, and all rows are heard as they were then, one at a time"
    if not broken:
        hearings = _round(source, ear, wanted, ear.known(cache), opened, None, step)
        broken = {index: hearing.error for index, hearing in hearings.items() if isinstance(hearing, Broken)}
        if not broken:
            return Hearings(hearings, None)
        for index, error in broken.items():
            sha256 = source.log.rows[index].wav_sha256
            assert sha256 is not None  # something was heard in it
            failures.add(sha256, error)
        step, then = _no_step, "all rows are heard anew, one at a time"
    failure = _first_failure(source, broken)
    log.warning(
        "the recogniser broke on %d rows, first on %s: %s; %s",
        *(failure.rows, failure.utterance_id, failure.error, then),
    )
    return Hearings(_round(source, ear, wanted, ear.known(cache, one_at_a_time=True), opened, 1, step), failure)


def _round(
    source: RunSource,
    ear: Ear,
    wanted: Collection[int],
    known: KnownTranscripts,
    opened: Callable[[], Transcriber],
    workers: int | None,
    step: Callable[[], None],
) -> dict[int, Hearing]:
    """All rows under one setting: by that many threads, or as many as the recogniser takes."""
    hearings: dict[int, Hearing] = {}
    waiting: list[RequestRecord] = []
    for index, record in source.rows():
        if record is not None and index in wanted:
            hearing = _hear(source, record, ear, known, None)
            if hearing is None:
                waiting.append(record)
                continue
            hearings[index] = hearing
        step()
    if waiting:
        transcriber = opened()
        for index, hearing in _heard(source, waiting, ear, known, transcriber, workers or transcriber.workers):
            hearings[index] = hearing
            step()
    return hearings


def _heard(
    source: RunSource,
    records: Sequence[RequestRecord],
    ear: Ear,
    known: KnownTranscripts,
    transcriber: Transcriber,
    workers: int,
) -> Iterator[tuple[int, Hearing]]:
    """Each record's hearing, in their order, made by that many threads."""

    def hear(record: RequestRecord) -> Hearing:
        hearing = _hear(source, record, ear, known, transcriber)
        assert hearing is not None  # there is a recogniser
        return hearing

    pool = ThreadPoolExecutor(workers, thread_name_prefix="hear")
    try:
        yield from zip((record.row_index for record in records), pool.map(hear, records), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


def _hear(
    source: RunSource, record: RequestRecord, ear: Ear, known: KnownTranscripts, transcriber: Transcriber | None
) -> Hearing | None:
    """One row; None if it takes a recogniser and there is none yet."""
    audio = audio_of(source.folder.path, record)
    if isinstance(audio, Charge):
        return audio
    assert record.wav_sha256 is not None  # the record's own validation ties a hash to a file
    if (transcript := known.get(record.wav_sha256)) is not None:
        return Heard(transcript, audio.duration_s, from_cache=True)
    samples = ear.samples(audio)
    if not audible_windows(samples):
        return Charge("silent", f"{audio.duration_s:.2f} s of silence")
    if transcriber is None:
        return None
    try:
        transcript = transcriber.transcribe(Clip(samples, record.wav_sha256))
    except Exception as error:  # whatever a recogniser raises, the row stays in the result, with the reason
        return Broken(f"{type(error).__name__}: {error}", audio.duration_s)
    known.add(record.wav_sha256, transcript)
    return Heard(transcript, audio.duration_s, from_cache=False)


def _first_failure(source: RunSource, broken: Mapping[int, str]) -> AsrFailure:
    """From the errors by row index, at least one."""
    first = min(broken)
    name = source.log.rows[first].utterance_id
    return AsrFailure(row_index=first, utterance_id=name, error=broken[first], rows=len(broken))


def _no_step() -> None:
    """The rows were counted when they were heard first."""

"""`ttsbench synth`: a whole set to a run folder."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from ttsbench.cli import options
from ttsbench.cli.failures import INTERRUPTED, ROWS_FAILED, print_result, reported, say_to_user

if TYPE_CHECKING:
    from ttsbench.experiment.synthesis import Progress, Synthesis
    from ttsbench.records import RequestRecord, RunManifest

STDERR_FD = 2

_CONCURRENCY = "Rows in flight; by default the engine's slots."
_STRICT = "Refuse the set if any row cannot be spoken; a text too long for the model shows only as it runs."
_STREAM = "Take audio as it appears, or each row whole."


def synth(
    set_: Annotated[str, typer.Option("--set", help="mini-en, a Seed-TTS list file, or a folder that holds one.")],
    out: Annotated[Path, typer.Option(help="Run folder to make; new or empty, unless with --resume.")],
    model: options.Model = "tiny",
    voice: options.VoiceName = None,
    instruct: options.Instruct = None,
    x_vector_only: Annotated[bool, typer.Option("--x-vector-only", help="Base: clone without the transcript.")] = False,
    language: options.Language = "auto",
    text_layout: options.Layout = None,
    seed: options.Seed = None,
    max_frames: options.MaxFrames = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help=_CONCURRENCY)] = None,
    profile: options.ProfileName = options.DEFAULT_PROFILE,
    override: options.Overrides = None,
    stream: Annotated[bool, typer.Option("--stream/--full", help=_STREAM)] = True,
    locale: Annotated[str | None, typer.Option(help="en or zh, where the list's folder does not say it.")] = None,
    first: Annotated[int | None, typer.Option(min=1, help="Only the first N rows.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help=_STRICT)] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a killed or interrupted run.")] = False,
) -> None:
    """Speak every row of a set: WAVs, one record per row, and a trace of the codec frames."""
    with reported():
        from ttsbench.experiment.options import SpeechOptions
        from ttsbench.experiment.prepare import SynthOptions, prepare

        speech = SpeechOptions(
            model=model, voice=voice, instruct=instruct, language=language, text_layout=text_layout,
            seed=seed, max_frames=max_frames, profile=profile, overrides=tuple(override or ()),
        )  # fmt: skip
        asked = SynthOptions(
            set=set_, out=out, speech=speech, x_vector_only=x_vector_only, concurrency=concurrency, stream=stream,
            locale=locale, first=first, strict=strict, resume=resume,
        )  # fmt: skip
        synthesis = prepare(asked)
        with closing(synthesis.engine):
            manifest = _run(synthesis)
        _report(out, manifest)


def _run(synthesis: Synthesis) -> RunManifest:
    """Speak what is open, with a progress bar; a finished run is left as it is."""
    from ttsbench.cli.progress import RowProgress

    if synthesis.finished and synthesis.before is not None:
        say_to_user("nothing to do: the run is complete")
        return synthesis.before
    rows = len(synthesis.corpus.rows)
    with RowProgress("synth", rows, rows - len(synthesis.open_jobs())) as bar, stop_on_signal() as stopping:

        def show(progress: Progress) -> None:
            rate = progress.audio_s / progress.elapsed_s if progress.elapsed_s else 0.0
            bar.update(progress.done, f"{progress.charged} not ok, {rate:.1f} audio-s/s")

        try:
            return synthesis.run(show, stopping)
        except KeyboardInterrupt:
            _say_interrupted(synthesis.folder.path)
            raise typer.Exit(INTERRUPTED) from None


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """While inside, the first Ctrl-C or SIGTERM makes the yielded call true, for a clean stop; a second breaks off."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        # Not print: the signal may have come in the middle of one, and buffered writers refuse to be re-entered.
        with suppress(BrokenPipeError):
            os.write(STDERR_FD, b"\nstopping after this step; once more to break off at once\n")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(out: Path, manifest: RunManifest) -> None:
    """Say how the run ended, name every row that did not end well, and exit accordingly."""
    from ttsbench.records import RowStatus, RunStatus, read_requests

    charged = [record for record in read_requests(out).rows.values() if record.status is not RowStatus.OK]
    for record in charged:
        say_to_user(f"  {record.utterance_id}: {_cause(record)}")
    counts, rate = manifest.counts, manifest.audio_s_per_wall_s
    speed = "" if rate is None else f", {rate:.1f} audio-s/s"
    total = f"{manifest.audio_s:.1f} s of audio{speed}, seed {manifest.settings.seed}"
    say_to_user(f"{counts.ok} of {counts.expected} rows ok, {total}")
    if manifest.status is not RunStatus.COMPLETE:
        _say_interrupted(out)
        raise typer.Exit(INTERRUPTED)
    print_result(str(out))
    if charged:
        raise typer.Exit(ROWS_FAILED)


def _say_interrupted(out: Path) -> None:
    say_to_user(f"interrupted; go on with the same command and --resume (--seed may be left out): {out}")


def _cause(record: RequestRecord) -> str:
    """Why a row did not end well, in words."""
    from ttsbench.records import RowStatus

    if record.status is RowStatus.LENGTH:
        return f"length, cut after {record.frames} frames"
    words = [part for part in (record.error_code, record.error_detail) if part is not None]
    return ", ".join([record.status.value, ": ".join(words)] if words else [record.status.value])

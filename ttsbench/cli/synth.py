"""`ttsbench synth`: a whole set to a run folder."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from ttsbench.cli import options
from ttsbench.cli.failures import INTERRUPTED, ROWS_FAILED, reported, say_to_user

if TYPE_CHECKING:
    from ttsbench.experiment.synthesis import Progress, Synthesis
    from ttsbench.records import RunManifest


def synth(
    set_: Annotated[str, typer.Option("--set", help="mini-en, a Seed-TTS list file, or a folder that holds one.")],
    out: Annotated[Path, typer.Option(help="Run folder to make; new or empty, unless with --resume.")],
    model: options.Model = "tiny",
    voice: options.VoiceName = None,
    instruct: options.Instruct = None,
    x_vector_only: Annotated[bool, typer.Option(help="Base: clone without the clip's transcript.")] = False,
    language: options.Language = "auto",
    seed: options.Seed = None,
    max_frames: options.MaxFrames = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Rows in flight; by default the engine's slots.")] = None,
    profile: options.ProfileName = options.DEFAULT_PROFILE,
    override: options.Overrides = None,
    stream: Annotated[bool, typer.Option("--stream/--full", help="Take audio as it appears, or each row whole.")] = True,
    locale: Annotated[str | None, typer.Option(help="en or zh, where the list's folder does not say it.")] = None,
    first: Annotated[int | None, typer.Option(min=1, help="Only the first N rows.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse the set if any row cannot be spoken.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a killed or interrupted run.")] = False,
) -> None:
    """Speak every row of a set: WAVs, one record per row, and a trace of the codec frames."""
    with reported():
        from ttsbench.experiment.prepare import SynthOptions, prepare

        asked = SynthOptions(
            set=set_, out=out, model=model, voice=voice, instruct=instruct, x_vector_only=x_vector_only,
            language=language, seed=seed, max_frames=max_frames, concurrency=concurrency, profile=profile,
            overrides=override or [], stream=stream, locale=locale, first=first, strict=strict, resume=resume,
        )  # fmt: skip
        manifest = _run(prepare(asked), resume)
        _report(out, manifest)


def _run(synthesis: Synthesis, resume: bool) -> RunManifest:
    from ttsbench.cli.progress import RowProgress

    with RowProgress("synth", len(synthesis.corpus.rows)) as bar, stop_on_signal() as stopping:

        def show(progress: Progress) -> None:
            rate = progress.audio_s / progress.elapsed_s if progress.elapsed_s else 0.0
            bar.update(progress.done, f"{progress.charged} charged, {rate:.1f} audio-s/s")

        return synthesis.run(resume, show, stopping)


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """While inside, the first Ctrl-C or SIGTERM asks for a clean stop (the yielded call says so); a second one breaks off."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        say_to_user("stopping after this step; once more to break off")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(out: Path, manifest: RunManifest) -> None:
    """Say how the run ended, name every row that did not end well, and exit accordingly."""
    from ttsbench.records import RowStatus, RunStatus, read_requests

    counts = manifest.counts
    bad = [r for r in read_requests(out).rows.values() if r.status is not RowStatus.OK]
    for record in bad:
        why = f": {record.error_code}, {record.error_detail}" if record.error_code else ""
        say_to_user(f"  {record.status.value} {record.utterance_id}{why}")
    rate = manifest.audio_s_per_wall_s
    speed = f", {rate:.1f} audio-s/s" if rate is not None else ""
    say_to_user(f"{counts.ok} of {counts.expected} rows ok, {manifest.audio_s:.1f} s of audio{speed}, seed {manifest.settings.seed}")
    if manifest.status is not RunStatus.COMPLETE:
        say_to_user(f"interrupted; go on with the same command and --resume (--seed may be left out): {out}")
        raise typer.Exit(INTERRUPTED)
    print(out)
    if bad:
        raise typer.Exit(ROWS_FAILED)

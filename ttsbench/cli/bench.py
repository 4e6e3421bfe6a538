"""`ttsbench bench`: how fast an engine speaks a set, untraced and without a WAV."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ttsbench.cli import options
from ttsbench.cli.failures import INTERRUPTED, ROWS_FAILED, print_result, reported, say_to_user
from ttsbench.core.request import SEED_LIMIT

if TYPE_CHECKING:
    from ttsbench.experiment.bench import Bench
    from ttsbench.records import BenchObservation, BenchRecord, BenchRound

_SEED = "Makes the noise repeatable, so that every start has the same work."
_CONCURRENCY = "Rows in the engine at once; may be repeated; by default the engine's slots, or fewer rows."
_ROUNDS = "Formal rounds at each concurrency, after a priming one that does not count."


def bench(
    set_: Annotated[str, typer.Option("--set", help="mini-en, a Seed-TTS list file, or a folder that holds one.")],
    out: Annotated[Path, typer.Option(help="JSON file to make; must not exist.")],
    model: options.Model = "tiny",
    voice: options.VoiceName = None,
    instruct: options.Instruct = None,
    x_vector_only: Annotated[bool, typer.Option("--x-vector-only", help="Base: clone without the transcript.")] = False,
    language: options.Language = "auto",
    text_layout: options.Layout = None,
    seed: Annotated[int, typer.Option(min=0, max=SEED_LIMIT - 1, help=_SEED)] = 0,
    max_frames: options.MaxFrames = None,
    concurrency: Annotated[list[int] | None, typer.Option(min=1, help=_CONCURRENCY)] = None,
    rounds: Annotated[int, typer.Option(min=1, help=_ROUNDS)] = 2,
    profile: options.ProfileName = options.DEFAULT_PROFILE,
    override: options.Overrides = None,
    locale: Annotated[str | None, typer.Option(help="en or zh, where the list's folder does not say it.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Only the first N rows.")] = None,
) -> None:
    """Time an engine over a set: throughput, first audio and gaps, at one concurrency after another."""
    with reported():
        from ttsbench.experiment.bench import BenchOptions, prepare_bench
        from ttsbench.experiment.options import SpeechOptions

        speech = SpeechOptions(
            model=model, voice=voice, instruct=instruct, language=language, text_layout=text_layout,
            seed=seed, max_frames=max_frames, profile=profile, overrides=tuple(override or ()),
        )  # fmt: skip
        asked = BenchOptions(
            set=set_, out=out, speech=speech, x_vector_only=x_vector_only, locale=locale, rows=rows,
            concurrencies=tuple(concurrency or ()), rounds=rounds,
        )  # fmt: skip
        prepared = prepare_bench(asked)
        with closing(prepared.engine):
            record = _run(prepared)
        _report(out, record)


def _run(prepared: Bench) -> BenchRecord:
    """Time every round; each is a line on stdout as it ends."""
    from ttsbench.cli.synth import stop_on_signal

    def announce(concurrency: int, number: int) -> None:
        which = f"round {number} of {prepared.rounds}" if number else "priming round"
        say_to_user(f"C{concurrency}, {which}: {len(prepared.corpus.rows)} rows")

    with stop_on_signal() as stopping:
        return prepared.run(_print_round, stopping, announce)


def _print_round(done: BenchRound) -> None:
    print_result(done.model_dump_json(exclude={"observations"}))


def _report(out: Path, record: BenchRecord) -> None:
    """The table, every row whose audio does not count, and the exit that follows."""
    from ttsbench.records import RunStatus
    from ttsbench.report import render_terminal
    from ttsbench.report.bench import bench_section

    say_to_user(render_terminal([bench_section(record)]))
    bad = [(done, row) for done in record.rounds for row in _bad_rows(done)]
    for done, row in bad:
        say_to_user(f"  C{done.concurrency} round {done.number}, {row.utterance_id}: {row.cause}")
    if record.status is not RunStatus.COMPLETE:
        say_to_user(f"interrupted; {out} has the rounds that were run")
        raise typer.Exit(INTERRUPTED)
    if bad:
        raise typer.Exit(ROWS_FAILED)


def _bad_rows(done: BenchRound) -> list[BenchObservation]:
    """Rows of a round whose audio does not count; those that a stop cancelled are no fault of theirs."""
    stopped = not done.complete
    return [row for row in done.observations if row.cause and not (stopped and row.finish_reason == "cancelled")]

"""`bench`: an engine over a set at one concurrency after another, timed, with nothing written while it speaks.

One engine start: per concurrency a priming round, which is kept and does not count, and then the formal rounds. The
file is replaced after every round, so that a later failure loses nothing that was measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ttsbench.adapters.faults import attempt
from ttsbench.adapters.native import NativeEngine
from ttsbench.core import InvalidInput, Problem
from ttsbench.corpus import Corpus
from ttsbench.experiment.bench_record import bench_round, describe_bench, pooled
from ttsbench.experiment.load import RoundResult, run_round
from ttsbench.experiment.options import SpeechOptions, load_settings
from ttsbench.experiment.prepare import open_set, row_plan, row_problems, run_voice
from ttsbench.experiment.rows import RowPlan
from ttsbench.profile import Profile
from ttsbench.records import BenchRecord, BenchRound, RunStatus, unwritable, utc_now, write_record


@dataclass(frozen=True)
class BenchOptions:
    """What a user asked of `bench`; no concurrency means the engine's slots."""

    set: str
    out: Path
    speech: SpeechOptions
    x_vector_only: bool
    locale: str | None
    rows: int | None
    concurrencies: tuple[int, ...]
    rounds: int


@dataclass(frozen=True)
class Bench:
    """One engine start, ready to be timed: everything in it has been validated."""

    engine: NativeEngine
    corpus: Corpus
    plan: RowPlan
    out: Path
    concurrencies: tuple[int, ...]
    rounds: int

    def run(
        self,
        on_round: Callable[[BenchRound], None],
        stopping: Callable[[], bool] = lambda: False,
        on_begin: Callable[[int, int], None] = lambda concurrency, number: None,
    ) -> BenchRecord:
        """Time every round; `on_round` is told of each before it is written: a disk may be full.

        `on_begin` is told of each before its clock starts: its concurrency and number.

        Raises InvalidInput for a file that has appeared meanwhile.
        """
        record = describe_bench(self.engine, self.corpus, self.plan, self.concurrencies, self.rounds)
        _claim(self.out)
        write_record(self.out, record)
        status, counted = RunStatus.BROKEN, dict[int, list[RoundResult]]()
        try:
            for number, result in self._results(stopping, on_begin):
                done = bench_round(result, number, self.corpus)
                if done.counted:
                    counted.setdefault(result.concurrency, []).append(result)
                record = record.revised(rounds=(*record.rounds, done), pooled=tuple(map(pooled, counted.values())))
                on_round(done)
                write_record(self.out, record)
            status = RunStatus.COMPLETE if self._all_ran(record) else RunStatus.INTERRUPTED
        except KeyboardInterrupt:
            status = RunStatus.INTERRUPTED
            raise
        finally:
            record = record.revised(status=status, ended_at=utc_now(), ended_at_missing=None)
            write_record(self.out, record)
        return record

    def _all_ran(self, record: BenchRecord) -> bool:
        return sum(done.complete for done in record.rounds) == len(self.concurrencies) * (1 + self.rounds)

    def _results(
        self, stopping: Callable[[], bool], on_begin: Callable[[int, int], None]
    ) -> Iterator[tuple[int, RoundResult]]:
        """Every round, with its number; a stop ends the one in hand and leaves out the rest."""
        hop, stats = self.engine.info().hop_samples, self.engine.stats
        attempts = 0
        for concurrency in self.concurrencies:
            for number in range(self.rounds + 1):
                attempts += 1
                requests = [self.plan.request(row, attempts) for row in self.corpus.rows]
                on_begin(concurrency, number)
                yield number, run_round(self.engine, requests, concurrency, hop, stats=stats, stopping=stopping)
                if stopping():
                    return


def prepare_bench(options: BenchOptions) -> Bench:
    """Load and check set, profile, checkpoint, voice, loads and file. Raises InvalidInput holding every fault found."""
    problems = out_problems(options.out)
    corpus = attempt(problems, lambda: open_set(options.set, options.locale, options.rows))
    profile, config = load_settings(options.speech, problems)
    voice = None if config is None else run_voice(options.speech, options.x_vector_only, config, problems)
    if corpus is not None and voice is not None:
        problems += row_problems(corpus, voice, strict=True)
    problems += load_problems(options.concurrencies, profile, corpus)
    if problems or corpus is None or profile is None or voice is None:
        raise InvalidInput(problems)
    engine = NativeEngine(options.speech.model, profile)
    return Bench(
        engine,
        corpus,
        row_plan(options.speech, voice, engine.info()),
        options.out,
        options.concurrencies or (min(profile.max_num_seqs, len(corpus.rows)),),
        options.rounds,
    )


def out_problems(out: Path) -> list[Problem]:
    """Why the result cannot be written to `out`: nothing is ever overwritten."""
    where, folder = f"--out {out}", Path(os.path.abspath(out)).parent
    if os.path.lexists(out):
        return [Problem(where, "a file that does not exist yet", "one that does", "give another name")]
    if not folder.is_dir():
        return [Problem(where, "an existing folder to write into", f"no folder {folder}")]
    if why := unwritable(folder):
        return [Problem(where, "a folder that can be written to", why)]
    return []


def load_problems(concurrencies: Sequence[int], profile: Profile | None, corpus: Corpus | None) -> Iterator[Problem]:
    """Loads that the engine, or the set, would never reach."""
    for concurrency in sorted({c for c in concurrencies if concurrencies.count(c) > 1}):
        yield Problem(f"--concurrency {concurrency}", "each load once", "it several times")
    for concurrency in dict.fromkeys(concurrencies):
        where = f"--concurrency {concurrency}"
        if profile is not None and concurrency > profile.max_num_seqs:
            expected = f"at most max_num_seqs {profile.max_num_seqs} of profile {profile.name}"
            yield Problem(where, expected, str(concurrency), f"or type --override max_num_seqs={concurrency}")
        if corpus is not None and concurrency > len(corpus.rows):
            hint = "raise --rows, or take a longer set"
            yield Problem(where, f"at most the {len(corpus.rows)} rows of the set", str(concurrency), hint)


def _claim(out: Path) -> None:
    """Make the file, empty: from here on it is ours to replace."""
    try:
        out.open("x").close()
    except FileExistsError:
        raise InvalidInput(Problem(f"--out {out}", "a file that does not exist yet", "one that has appeared")) from None

"""From options to a run that is ready to start: everything is checked first, and all faults are told at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ttsbench.adapters.native import NativeEngine
from ttsbench.core import InvalidInput, Problem, ReferenceVoice
from ttsbench.corpus import Column, Corpus, load_corpus, select
from ttsbench.experiment.rows import RowClip, RowPlan
from ttsbench.experiment.synthesis import Synthesis
from ttsbench.experiment.voice import checkpoint_voice, drawn_seed, parse_overrides
from ttsbench.profile import load_profile
from ttsbench.records import RecordError, RunFolder, read_manifest

T = TypeVar("T")


@dataclass(frozen=True)
class SynthOptions:
    """What a user asked of `synth`; None leaves the choice to the checkpoint, the engine or chance."""

    set: str
    out: Path
    model: str
    voice: str | None
    instruct: str | None
    x_vector_only: bool
    language: str
    seed: int | None
    max_frames: int | None
    concurrency: int | None
    profile: str
    overrides: list[str]
    stream: bool
    locale: str | None
    first: int | None
    strict: bool
    resume: bool


def prepare(options: SynthOptions) -> Synthesis:
    """Load and check corpus, profile, checkpoint and voice. Raises InvalidInput holding every fault found in any of them."""
    problems: list[Problem] = []
    seed = _folder_seed(options, problems)
    corpus = _try(problems, lambda: _corpus(options))
    overrides = parse_overrides(options.overrides, problems)
    profile = _try(problems, lambda: load_profile(options.profile, overrides))
    engine = None if profile is None else _try(problems, lambda: NativeEngine(options.model, profile, options.stream))
    plan = None if engine is None else _plan(options, engine, seed, problems)
    if corpus is not None and plan is not None:
        problems += _row_problems(options, corpus, plan)
    if problems or corpus is None or engine is None or plan is None:
        raise InvalidInput(problems)
    concurrency = engine.info().max_num_seqs if options.concurrency is None else options.concurrency
    return Synthesis(engine, corpus, plan, options.out, concurrency, options.stream)


def _try(problems: list[Problem], make: Callable[[], T]) -> T | None:
    """What `make` makes, or None with its faults added to the list."""
    try:
        return make()
    except InvalidInput as error:
        problems += error.problems
        return None


def _folder_seed(options: SynthOptions, problems: list[Problem]) -> int:
    """The run's seed: asked for, or that of the run to resume, or drawn. Checks the run folder on the way."""
    where, manifest = f"--out {options.out}", RunFolder(options.out).manifest
    if not options.resume:
        if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
            hint = "give another folder, or --resume to go on with a run" if manifest.exists() else "give another folder"
            problems.append(Problem(where, "a folder that is new or empty", "one that is not", hint))
        return drawn_seed() if options.seed is None else options.seed
    try:
        before = read_manifest(options.out)
    except (OSError, RecordError) as error:
        problems.append(Problem(where, "the folder of a run to resume", str(error), "leave --resume out to begin one"))
        return 0
    return before.settings.seed if options.seed is None else options.seed


def _corpus(options: SynthOptions) -> Corpus:
    corpus = load_corpus(options.set, options.locale)
    return corpus if options.first is None else select(corpus, first=options.first)


def _plan(options: SynthOptions, engine: NativeEngine, seed: int, problems: list[Problem]) -> RowPlan:
    info = engine.info()
    named = checkpoint_voice(engine, options.voice, options.instruct, problems)
    if named is not None and options.x_vector_only:
        problems.append(Problem("--x-vector-only", "a Base checkpoint", f"one that is {engine.model_type}"))
    problems += engine.problems(ReferenceVoice(Path()) if named is None else named, options.language)
    return RowPlan(
        voice=RowClip(in_context=not options.x_vector_only) if named is None else named,
        language=options.language,
        sampling=info.default_sampling,
        text_layout=info.default_text_layout,
        seed=seed,
        max_frames=info.default_max_frames if options.max_frames is None else options.max_frames,
    )


def _row_problems(options: SynthOptions, corpus: Corpus, plan: RowPlan) -> list[Problem]:
    """A set without the clips that the checkpoint needs; with --strict also every row that could not be spoken."""
    if isinstance(plan.voice, RowClip) and Column.PROMPT_AUDIO not in corpus.fields:
        return [Problem(str(corpus.path), "a list with prompt clips, since the checkpoint clones voices", "one without")]
    if not options.strict:
        return []
    faults = [(row, plan.problem(row)) for row in corpus.rows]
    return [
        Problem(f"{corpus.path}:{row.line}", "a row that can be spoken", f"{fault.code}: {fault}", "or leave --strict out")
        for row, fault in faults
        if fault is not None
    ]

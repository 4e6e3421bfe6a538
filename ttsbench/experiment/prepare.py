"""From options to a run that is ready to start: everything is checked first, and all faults are told at once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ttsbench.adapters.faults import attempt
from ttsbench.adapters.native import NativeEngine, served_problems
from ttsbench.core import EngineInfo, InvalidInput, Problem, ReferenceVoice
from ttsbench.corpus import Column, Corpus, load_corpus, select
from ttsbench.experiment.options import SpeechOptions, drawn_seed, load_settings
from ttsbench.experiment.resume import differences
from ttsbench.experiment.rows import RowClip, RowPlan, RunVoice, row_problem
from ttsbench.experiment.synthesis import Synthesis
from ttsbench.experiment.voice import checkpoint_voice
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.records import RecordError, RunFolder, RunManifest, read_manifest, unwritable


@dataclass(frozen=True)
class SynthOptions:
    """What a user asked of `synth`; None leaves the choice to the checkpoint, the engine or chance."""

    set: str
    out: Path
    speech: SpeechOptions
    x_vector_only: bool
    concurrency: int | None
    stream: bool
    locale: str | None
    first: int | None
    strict: bool
    resume: bool


def prepare(options: SynthOptions) -> Synthesis:
    """Load and check list, profile, checkpoint, voice and run folder. Raises InvalidInput holding every fault found."""
    problems: list[Problem] = []
    before = _run_to_resume(options.out, problems) if options.resume else None
    if not options.resume:
        _check_new(options.out, problems)
    if not problems and (why := unwritable(options.out)):
        problems.append(Problem(f"--out {options.out}", "a folder that can be written to", why))
    corpus = attempt(problems, lambda: open_set(options.set, options.locale, options.first))
    profile, config = load_settings(options.speech, problems)
    voice = None if config is None else run_voice(options.speech, options.x_vector_only, config, problems)
    if corpus is not None and voice is not None:
        problems += row_problems(corpus, voice, options.strict)
    if problems or corpus is None or profile is None or voice is None:
        raise InvalidInput(problems)
    engine = NativeEngine(options.speech.model, profile, options.stream)
    plan = row_plan(options.speech, voice, engine.info(), before)
    concurrency = engine.info().max_num_seqs if options.concurrency is None else options.concurrency
    synthesis = Synthesis(engine, corpus, plan, RunFolder(options.out), concurrency, options.stream, before)
    if before is not None and (changed := differences(before, synthesis.manifest)):
        raise InvalidInput(changed)
    return synthesis


def _check_new(out: Path, problems: list[Problem]) -> None:
    """Check that a new run may be made in `out`."""
    if _is_new(out):
        return
    is_run = RunFolder(out).manifest.exists()
    hint = "give another folder, or --resume to go on with this run" if is_run else _instead_of(out)
    problems.append(Problem(f"--out {out}", "a folder that is new or empty", "one that is not", hint))


def _run_to_resume(out: Path, problems: list[Problem]) -> RunManifest | None:
    try:
        return read_manifest(out)
    except (OSError, RecordError) as error:
        hint = "leave --resume out to begin a run" if _is_new(out) else _instead_of(out)
        problems.append(Problem(f"--out {out}", "the folder of a run to resume", str(error), hint))
        return None


def _is_new(out: Path) -> bool:
    return not os.path.lexists(out) or (out.is_dir() and not any(out.iterdir()))


def _instead_of(out: Path) -> str:
    """What to type in place of a folder that can neither be begun in nor resumed."""
    folder = RunFolder(out)
    if folder.requests.exists() and not folder.manifest.exists():
        return "the run in it was killed before its first row: delete the folder, or give another"
    return "give another folder"


def open_set(name: str, locale: str | None, first: int | None) -> Corpus:
    """The rows of a set, or the first of them."""
    corpus = load_corpus(name, locale)
    return corpus if first is None else select(corpus, first=first)


def run_voice(speech: SpeechOptions, x_vector_only: bool, config: Qwen3TTSConfig, problems: list[Problem]) -> RunVoice:
    """One voice for all rows, or each row's own clip; checked against what the checkpoint serves."""
    named = checkpoint_voice(config, speech.voice, speech.instruct, problems)
    if named is not None and x_vector_only:
        problems.append(Problem("--x-vector-only", "a Base checkpoint", f"one that is {config.model_type.value}"))
    sample = ReferenceVoice(Path()) if named is None else named
    problems += served_problems(config, sample, speech.language)
    return RowClip(in_context=not x_vector_only) if named is None else named


def row_problems(corpus: Corpus, voice: RunVoice, strict: bool) -> list[Problem]:
    """A set without the clips that the checkpoint needs; with --strict also every row that could not be spoken."""
    if isinstance(voice, RowClip) and Column.PROMPT_AUDIO not in corpus.fields:
        expected = "a list with prompt clips, since the checkpoint clones voices"
        return [Problem(str(corpus.path), expected, "one without")]
    if not strict:
        return []
    faults = [(row, row_problem(row, voice)) for row in corpus.rows]
    return [
        Problem(f"{corpus.path}:{row.line}", "a row that can be spoken", f"{fault.code}: {fault}")
        for row, fault in faults
        if fault is not None
    ]


def row_plan(
    speech: SpeechOptions,
    voice: RunVoice,
    info: EngineInfo,
    before: RunManifest | None = None,
) -> RowPlan:
    """What all rows share. The seed is the one asked for, or that of the run to resume, or drawn."""
    seed = before.settings.seed if before is not None and speech.seed is None else speech.seed
    return RowPlan(
        voice=voice,
        language=speech.language,
        sampling=info.default_sampling,
        text_layout=speech.text_layout or info.default_text_layout,
        seed=drawn_seed() if seed is None else seed,
        max_frames=info.default_max_frames if speech.max_frames is None else speech.max_frames,
    )

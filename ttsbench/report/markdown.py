"""The same sections as GitHub Markdown for a pull request, under a head that says what the numbers are of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ttsbench.records import CodeRevision, Hardware, RunManifest, ScoreSummary, write_atomic
from ttsbench.report.ledger import SECTIONS
from ttsbench.report.section import Grid, Section
from ttsbench.report.table import score_table

GIB = 1 << 30
LONG_SELECTION = 80
"""A selection of more characters (a list of ids) is left to run.json."""
_SPECIAL = re.compile(r"([\\`*_~|<>\[\]#])")


def write_markdown(path: Path, run_dir: Path, summary: ScoreSummary, manifest: RunManifest) -> None:
    """Write the report to `path`, replacing it as a whole. Raises OSError naming it."""
    write_atomic(path, render_markdown(run_dir, summary, manifest).encode())


def render_markdown(run_dir: Path, summary: ScoreSummary, manifest: RunManifest) -> str:
    """The report as GitHub Markdown. Raises as `score_table` does."""
    facts = Grid(("run", _run_id(run_dir)), tuple(_facts(summary, manifest)))
    parts = [f"## ttsbench score: {_text(_run_id(run_dir))}", *_grid(facts, figures_from=2)]
    for section in score_table(run_dir, summary, manifest):
        parts += _section(section)
    return "\n".join(parts) + "\n"


def _facts(summary: ScoreSummary, manifest: RunManifest) -> Iterable[tuple[str, str]]:
    corpus, engine, settings, checkpoint = manifest.corpus, manifest.engine, manifest.settings, manifest.checkpoint
    rows = f"{corpus.rows_expected} of {corpus.rows_in_list} rows"
    chosen = f", {corpus.selection}" if len(corpus.selection) <= LONG_SELECTION else ", a selection (see run.json)"
    no_weights = f"n/a: {manifest.checkpoint_missing}"
    yield "status", f"{manifest.status}, started {manifest.started_at:%Y-%m-%d %H:%M:%S} UTC"
    yield "profile", f"{manifest.profile.get('name', 'without a name')}, hash {manifest.profile_sha256}"
    yield "checkpoint", no_weights if checkpoint is None else f"{checkpoint.name}, hash {checkpoint.sha256}"
    yield "corpus", f"{corpus.name} ({corpus.locale}), {rows}{chosen}, hash {corpus.sha256}"
    yield "code", _code(manifest.code)
    yield "engine", f"{engine.name}, {engine.mode}, {engine.device}, {engine.dtype}, determinism {engine.determinism}"
    tracing = "on" if settings.tracing else "off"
    yield "settings", f"concurrency {settings.concurrency}, seed {settings.seed}, tracing {tracing}"
    yield "hardware", _hardware(manifest.hardware)
    yield "software", ", ".join(f"{name} {version}" for name, version in manifest.software.items())
    for name, wer in summary.wer.items():
        yield f"protocol {name}", f"hash {wer.protocol_sha256}, scored {wer.scored_at:%Y-%m-%d %H:%M:%S} UTC"
    for name in SECTIONS:
        if (section := getattr(summary, name)) is not None:
            yield f"scorer {name}", f"hash {section.scorer_sha256}"


def _run_id(run_dir: Path) -> str:
    return run_dir.resolve().name


def _code(code: CodeRevision) -> str:
    revision = code.revision or f"n/a: {code.revision_missing}"
    state = f"n/a: {code.dirty_missing}" if code.dirty is None else "yes" if code.dirty else "no"
    return f"revision {revision}, dirty {state}, source hash {code.source_sha256}"


def _hardware(hardware: Hardware) -> str:
    cpu = hardware.cpu_model or f"n/a: {hardware.cpu_model_missing}"
    unknown = f"memory n/a: {hardware.memory_bytes_missing}"
    memory = unknown if hardware.memory_bytes is None else f"{hardware.memory_bytes / GIB:.1f} GiB"
    gpus = [f"{gpu.name}, {gpu.memory_bytes / GIB:.1f} GiB, driver {gpu.driver or 'n/a'}" for gpu in hardware.gpus]
    return "; ".join([f"{cpu}, {hardware.cpu_cores} cores, {memory}", *(gpus or ["no GPU"])])


def _section(section: Section) -> list[str]:
    """Blank lines part the blocks; without them GitHub takes a table for text."""
    parts = ["", f"### {_text(section.title)}"]
    if section.ledger:
        parts += ["", _text(section.ledger)]
    for grid in section.grids:
        parts += _grid(grid, figures_from=1)
    notes = [f"- {_text(note)}" for note in section.notes]
    return [*parts, "", *notes] if notes else parts


def _grid(grid: Grid, figures_from: int) -> list[str]:
    """A table whose columns from `figures_from` on are set to the right."""
    rule = ["---" if place < figures_from else "---:" for place in range(len(grid.header))]
    return ["", _line(grid.header), f"| {' | '.join(rule)} |", *(_line(row) for row in grid.rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_text(cell) for cell in cells)} |"


def _text(text: str) -> str:
    """Text that Markdown shows as it stands, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))

"""Where `score` is asked to write reports: checked before anything is judged, so that its work has a place to go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ttsbench.core import InvalidInput, Problem
from ttsbench.records import unwritable

RECORDS = {"run.json", "requests.jsonl", "trace.jsonl", "scores.json", "scores", "wav"}
"""What a run folder holds; no report takes its place."""
REPORT_HEAD = b"## ttsbench score"
"""How our own Markdown begins; no other file is overwritten."""


@dataclass(frozen=True)
class Targets:
    """Forms of the report that were asked for."""

    markdown: Path | None = None
    plots: Path | None = None
    export: Path | None = None

    def check(self, run: Path) -> None:
        """Raises InvalidInput with every target that cannot be written, or would take the place of something."""
        folders = {"--plots": (self.plots, "matplotlib"), "--export": (self.export, "pyarrow")}
        problems = [] if self.markdown is None else list(_file_problems("--markdown", self.markdown, run))
        for option, (folder, package) in folders.items():
            if folder is not None:
                problems += _folder_problems(option, folder, run, package)
        if problems:
            raise InvalidInput(problems)


def _file_problems(option: str, file: Path, run: Path) -> Iterator[Problem]:
    yield from _place_problems(option, file, run)
    if file.is_dir():
        yield Problem(option, "a file", f"the folder {file}")
    elif file.exists() and not file.read_bytes().startswith(REPORT_HEAD):
        yield Problem(option, "a new file, or an earlier report", f"{file}, which is something else")
    elif why := unwritable(file.absolute().parent):
        yield Problem(option, "a place that can be written to", f"{file}: {why}")


def _folder_problems(option: str, folder: Path, run: Path, package: str) -> Iterator[Problem]:
    yield from _place_problems(option, folder, run)
    if folder.exists() and not folder.is_dir():
        yield Problem(option, "a folder", f"the file {folder}")
    elif why := unwritable(folder.absolute()):
        yield Problem(option, "a place that can be written to", f"{folder}: {why}")
    if find_spec(package) is None:
        yield Problem(option, f"the package {package}", "no such module", f"pip install {package}")


def _place_problems(option: str, path: Path, run: Path) -> Iterator[Problem]:
    inside, home = path.resolve(), run.resolve()
    if inside == home or (home in inside.parents and inside.relative_to(home).parts[0] in RECORDS):
        yield Problem(option, "a place apart from the run's records", str(path), f"for instance {run}-report")

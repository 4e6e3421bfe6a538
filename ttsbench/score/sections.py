"""A run folder under every scorer but WER: each writes its rows and its section of scores.json.

A section is made again only when something that it was made from has changed: records, WAVs and clips as they lie on
disk, this package's own scoring code, or the packages that it works with. Files appear whole; an interrupted scoring
leaves the earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from pydantic import JsonValue

from ttsbench import __version__
from ttsbench.core import InvalidInput, Problem
from ttsbench.records import (
    Record,
    RunFolder,
    ScoreSummary,
    SectionSource,
    canonical_sha256,
    read_scores,
    sha256_of,
    unwritable,
    utc_now,
    write_atomic,
    write_record,
)
from ttsbench.score.asr.weights import package_versions
from ttsbench.score.source import RunSource, readable_sha256

Progress = Callable[[int, int], None]
Judged = tuple[Sequence[Record], Any]
"""Rows in row order, and the section."""


def _speaker(source: RunSource, progress: Progress | None) -> Judged:
    from ttsbench.score.speaker import judge_speaker
    from ttsbench.score.speaker.ge2e import Ge2eEncoder

    return judge_speaker(source, Ge2eEncoder.load(), progress)


def _frames(source: RunSource, progress: Progress | None) -> Judged:
    from ttsbench.score.frames import judge_frames

    return judge_frames(source)


def _pcm(source: RunSource, progress: Progress | None) -> Judged:
    from ttsbench.score.pcm import judge_pcm

    return judge_pcm(source)


def _timing(source: RunSource, progress: Progress | None) -> Judged:
    from ttsbench.score.timing import judge_timing

    return judge_timing(source)


SECTIONS: dict[str, Callable[[RunSource, Progress | None], Judged]] = {
    "speaker": _speaker,
    "frames": _frames,
    "pcm": _pcm,
    "timing": _timing,
}
"""Scorers by the name of their section, in the order in which they run and are shown."""
SOFTWARE = ("numpy", "soundfile", "soxr")
"""Packages that read, resample and measure for every section."""


def check_sections(source: RunSource, names: Sequence[str]) -> None:
    """Whether `names` are sections that can be written. Raises InvalidInput, or RecordError for a bad scores.json."""
    if unknown := [name for name in names if name not in SECTIONS]:
        raise InvalidInput(Problem("section", f"of {', '.join(SECTIONS)}", ", ".join(unknown)))
    folder = source.folder
    for parent in dict.fromkeys((folder.path, *(folder.score_rows(name).parent for name in names))):
        if why := unwritable(parent):
            raise InvalidInput(Problem(str(parent), "a folder that can be written to", why))
    _earlier(folder)


def score_section(source: RunSource, name: str, progress: Progress | None = None) -> bool:
    """Bring one section up to date; whether there was anything to do."""
    folder, inputs = source.folder, inputs_sha256(source, name)
    earlier = _earlier(folder)
    if earlier is not None and _is_fresh(folder, earlier, name, inputs):
        return False
    rows, section = SECTIONS[name](source, progress)
    data = b"".join(row.model_dump_json().encode() + b"\n" for row in rows)
    path = folder.score_rows(name)
    path.parent.mkdir(exist_ok=True)
    write_atomic(path, data)
    made = SectionSource(
        scored_at=utc_now(),
        tool_version=__version__,
        software=_software(name),
        inputs_sha256=inputs,
        rows_file=path.relative_to(folder.path).as_posix(),
        rows_sha256=sha256_of(data),
    )
    summary = earlier or ScoreSummary(wer={})
    write_record(folder.scores, summary.revised(**{name: section}, sources=summary.sources | {name: made}))
    return True


def inputs_sha256(source: RunSource, name: str) -> str:
    """Hash of all that decides a section. A run folder may be moved: its WAVs go by their place in it."""
    folder = source.folder
    read: dict[str, JsonValue] = {
        "section": name,
        "code": code_sha256(),
        "software": dict(_software(name)),
        "run": sha256_of(folder.manifest.read_bytes()),
        "requests": source.log.sha256,
        "trace": None if source.trace is None else source.trace.sha256,
        "wavs": dict(source.wavs_sha256),
        "clips": dict(source.clips_sha256),
    }
    return canonical_sha256(read)


@cache
def code_sha256() -> str:
    """Hash of the code and data that scoring consists of: another release may judge otherwise."""
    package = files("ttsbench")
    parts = [package / room for room in ("records", "score", "trace")] + [package / "assets" / "ge2e"]
    return canonical_sha256({name: sha256 for part in parts for name, sha256 in _hashes(part, part.name).items()})


def _hashes(part: Traversable, name: str) -> dict[str, JsonValue]:
    if part.is_file():
        return {name: sha256_of(part.read_bytes())} if not name.endswith(".pyc") else {}
    return {n: sha for child in part.iterdir() for n, sha in _hashes(child, f"{name}/{child.name}").items()}


def _software(name: str) -> dict[str, str]:
    """Versions of the packages whose arithmetic can change a section, from their metadata: nothing is imported."""
    return package_versions(*SOFTWARE, *(["torch"] if name == "speaker" else []))


def _is_fresh(folder: RunFolder, earlier: ScoreSummary, name: str, inputs: str) -> bool:
    made = earlier.sources.get(name)
    if made is None or made.inputs_sha256 != inputs or getattr(earlier, name) is None:
        return False
    return readable_sha256(folder.path / made.rows_file) == made.rows_sha256


def _earlier(folder: RunFolder) -> ScoreSummary | None:
    return read_scores(folder.path) if folder.scores.exists() else None

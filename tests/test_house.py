"""Policies of the house that a machine can check: which room may import which, and what the repository may not say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ttsbench"

# docs/design.md, section 3. A room imports itself and what stands here; cli is the top and imports everything.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "records": set(),
    "assets": set(),
    "corpus": {"core", "assets"},
    "profile": {"core"},
    "kernels": {"core"},
    "models": {"core", "assets", "kernels"},
    "engine": {"core", "kernels", "models"},
    "adapters": {"core", "assets", "corpus", "profile", "kernels", "models", "engine"},
    "trace": {"core", "records"},
    "score": {"core", "records", "corpus", "assets", "trace"},
    "report": {"core", "records", "score", "trace"},
    "experiment": {"core", "records", "assets", "corpus", "profile", "models", "adapters", "trace", "score"},
}
MAY_IMPORT["cli"] = set(MAY_IMPORT)

BARE_ROOMS = ("kernels", "models", "engine")
"""Rooms that run where nothing but torch, numpy and safetensors is installed."""


def house_imports(source: str) -> Iterator[tuple[int, str]]:
    """Line and room of every import of the house, lazy ones too; "" is the package itself, where the version is."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "ttsbench":
            names = [f"ttsbench.{alias.name}" for alias in node.names if alias.name != "__version__"]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            house, _, rest = name.partition(".")
            if house == "ttsbench":
                yield node.lineno, rest.split(".")[0]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def wrong_imports(path: Path, source: str) -> list[str]:
    """What `path` imports against the table, as `file:line imports room`."""
    room = room_of(path)
    allowed = MAY_IMPORT[room] | {room, ""}
    found = ((line, target) for line, target in house_imports(source) if target not in allowed)
    return [f"{path.relative_to(ROOT)}:{line} imports {target}" for line, target in found]


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE)


def test_every_room_has_its_place_in_the_import_order() -> None:
    """Goes red when a room is added to ttsbench/ and not to the table above."""
    rooms = {room_of(path) for path in modules()}
    assert rooms, "no modules found"
    assert rooms <= MAY_IMPORT.keys(), f"say what these may import: {sorted(rooms - MAY_IMPORT.keys())}"


def test_the_table_points_down() -> None:
    """Goes red when two rooms of the table may import each other, at any distance, or judging may reach the engine."""
    for room in MAY_IMPORT:
        assert room not in reachable(room), f"{room} may import itself by a detour"
    for judge in ("trace", "score", "report"):
        assert reachable(judge).isdisjoint({"engine", "models", "kernels", "adapters"})


def reachable(room: str) -> set[str]:
    """Every room that `room` may import, directly or by others."""
    found: set[str] = set()
    todo = {room}
    while todo:
        todo = {lower for upper in todo for lower in MAY_IMPORT[upper]} - found
        found |= todo
    return found


def test_imports_point_down() -> None:
    """Goes red when a module of, say, score/ imports ttsbench.engine, at its top or inside a function."""
    wrong = [
        line
        for path in modules()
        if room_of(path) in MAY_IMPORT
        for line in wrong_imports(path, path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "source",
    [
        "import ttsbench.engine.fused",
        "from ttsbench.engine import FusedEngine",
        "from ttsbench import engine",
        "def judge():\n    from ttsbench.engine.fused import FusedEngine",
    ],
)
def test_every_spelling_of_an_import_is_seen(source: str) -> None:
    """Goes red when `house_imports` forgets one way to write an import."""
    assert wrong_imports(PACKAGE / "score" / "wer.py", source)
    assert not wrong_imports(PACKAGE / "adapters" / "native.py", source)


BARE_IMPORT = """
import builtins, importlib, pkgutil, sys

ALLOWED = set(sys.stdlib_module_names) | {"torch", "numpy", "safetensors", "triton", "ttsbench"}
plain_import = builtins.__import__

def guarded(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {}).get("__name__", "")
    if importer.split(".")[0] == "ttsbench" and level == 0 and name.split(".")[0] not in ALLOWED:
        raise ImportError(f"{importer} imports {name}")
    return plain_import(name, globals, locals, fromlist, level)

builtins.__import__ = guarded
room = importlib.import_module(sys.argv[1])
try:
    import triton
except ImportError:
    triton = None
for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
    if triton or not module.name.endswith(".triton"):
        importlib.import_module(module.name)
"""


def import_bare(package: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Import every module of `package`, found under `path`, in a process that refuses other packages to the house."""
    command = [sys.executable, "-c", BARE_IMPORT, package]
    return subprocess.run(command, cwd=path, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("room", [room for room in BARE_ROOMS if (PACKAGE / room).is_dir()])
def test_the_engine_imports_with_torch_numpy_and_safetensors_alone(room: str) -> None:
    """Goes red when a module of the room, or one it imports, has `import yaml` or `import soundfile` at its top."""
    done = import_bare(f"ttsbench.{room}", ROOT)
    assert done.returncode == 0, done.stderr


def test_a_third_party_import_is_refused_to_the_house(tmp_path: Path) -> None:
    """Goes red when the guard of the test above lets a package of the house import anything."""
    room = tmp_path / "ttsbench" / "models"
    room.mkdir(parents=True)
    (room.parent / "__init__.py").touch()
    (room / "__init__.py").touch()
    (room / "deep.py").write_text("import yaml\n")
    done = import_bare("ttsbench.models", tmp_path)
    assert done.returncode != 0
    assert "ttsbench.models.deep imports yaml" in done.stderr


# Written in pieces, so that this file does not say what it forbids.
FORBIDDEN = {
    "a path of one machine": re.compile(
        r"(?<![\w.~/-])/(?:" + "|".join(("work", "tmp", "root", "home", "opt")) + r")/"
    ),
    "a package registry's host": re.compile(
        "|".join((r"pypi\." + "org", r"python" + r"hosted\.org", r"npm" + r"js\.(?:org|com)"))
    ),
    "a private folder": re.compile(r"\." + "library" + r"\b"),
}


def tracked_files() -> list[Path]:
    """Files that git has or would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def forbidden_words(text: str) -> list[str]:
    return [f"{what}: {found.group()}" for what, pattern in FORBIDDEN.items() for found in pattern.finditer(text)]


def test_the_repository_speaks_of_ttsbench_alone() -> None:
    """Goes red when a tracked text file names a folder of somebody's machine or the host of a package registry."""
    if not (ROOT / ".git").exists():
        pytest.skip("only a git checkout knows which files are the repository's")
    found = []
    for path in tracked_files():
        data = path.read_bytes()
        if b"\0" not in data[:8192]:
            words = forbidden_words(data.decode("utf-8", errors="replace"))
            found += [f"{path.relative_to(ROOT)}: {word}" for word in words]
    assert not found, "\n".join(found)


def test_forbidden_words_are_recognised() -> None:
    """Goes red when a pattern above stops matching what it is for, or starts matching ordinary paths."""
    for words in (("/wo", "rk/x"), ("see /t", "mp/run"), ("pypi", ".org/simple"), (".lib", "rary/env")):
        assert forbidden_words("".join(words))
    for ordinary in (
        "#!/usr/bin/env bash",
        "runs/work/a.wav",
        "https://example.com/work/x",
        "audio-s/s",
        "a.librarian",
    ):
        assert not forbidden_words(ordinary)


@cache
def readme_commands() -> tuple[str, ...]:
    """Command lines of README.md's fenced shell blocks, comments and prompts taken off."""
    blocks = re.findall(
        r"^```(?:bash|sh|shell|console)?\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S
    )
    lines = (line.removeprefix("$ ").split("#")[0].strip() for block in blocks for line in block.splitlines())
    return tuple(line for line in lines if line)


def test_readme_names_make_targets_that_exist() -> None:
    """Goes red when README.md tells people to run a make target that the Makefile does not have."""
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = {
        word for line in readme_commands() if line.startswith("make ") for word in line.split()[1:] if "=" not in word
    }
    assert named, "README.md shows no make command"
    assert named <= targets


def test_readme_names_ttsbench_commands_that_exist() -> None:
    """Goes red when README.md tells people to run a ttsbench command that the command line does not have."""
    named = {line.split()[1] for line in readme_commands() if re.match(r"ttsbench [a-z]", line)}
    assert named, "README.md shows no ttsbench command"
    import typer.main

    from ttsbench.cli.main import app

    known = getattr(typer.main.get_command(app), "commands", {})
    assert named <= set(known)


def test_make_prints_what_it_can_do() -> None:
    """Goes red when `make` alone starts work, or its help forgets one of the four targets people need."""
    done = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"demo", "test", "check", "clean"} <= set(re.findall(r"^make (\w+)", done.stdout, re.M))

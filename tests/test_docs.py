"""What the documents point to exists: every test they name, every file they link to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))

NAMED = re.compile(r"`(tests/[\w/.-]+?)/?(?:::([\w*:]+)(\[[^`]*\])?)?`")
"""A path in code marks, then perhaps a test's name, in which `*` stands for any letters, and parameters."""
TEST = re.compile(r"`(test_\w+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ROW = re.compile(r"^\| (BL-\d+) \|.*\| (\w+) \| (.+) \|$", re.M)


@cache
def functions_in(path: Path) -> frozenset[str]:
    """Names of a module's test functions; those of a class as Class::name."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        functions = (item for item in inside if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef))
        found |= {f"{prefix}{item.name}" for item in functions if item.name.startswith("test")}
    return frozenset(found)


def missing_tests(text: str, root: Path = ROOT) -> Iterator[str]:
    """References of a document to tests, modules or folders that are not there."""
    everywhere = {name for path in (root / "tests").rglob("test_*.py") for name in functions_in(path)}
    for path_text, name, parameters in NAMED.findall(text):
        path = root / path_text
        there = path.exists() if not name else path.is_file() and _has(path, name)
        if not there:
            yield path_text + (f"::{name}{parameters}" if name else "")
    yield from (name for name in TEST.findall(text) if name not in everywhere)


def _has(path: Path, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in functions_in(path))


def missing_links(path: Path) -> Iterator[str]:
    """Relative links of a document that lead nowhere. Anchors inside a page are not followed."""
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:|#", target) and not (path.parent / target.split("#")[0]).exists():
            yield target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_tests_that_exist(path: Path) -> None:
    """Goes red when a test that a document relies on is renamed, moved or deleted."""
    assert list(missing_tests(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_link_to_files_that_exist(path: Path) -> None:
    """Goes red when a file is moved and a link to it is not."""
    assert list(missing_links(path)) == []


def test_every_kind_of_broken_reference_is_found(tmp_path: Path) -> None:
    """Goes red when an expression above stops matching: the two tests before would then pass on nothing."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_one(): ...\nclass TestB:\n    def test_two(self): ...\n")
    good = "`tests/test_a.py::test_one[3-x]` `tests/test_a.py::TestB::test_two` `tests/test_a.py::test_o*` `tests/` "
    bad = "`tests/test_a.py::test_two` `tests/test_b.py` `tests/test_b.py::test_one` `tests/test_a.py::no_*` `test_x`"
    assert list(missing_tests(good + "`tests/test_a.py` `tests` `test_one`", tmp_path)) == []
    assert list(missing_tests(bad, tmp_path)) == [word.strip("`") for word in bad.split()]
    document = tmp_path / "a.md"
    document.write_text("[x](a.md#part) [x](https://example.com) [x](#part) [x](tests/) [`x`](b.md) ![x](c.png)")
    assert list(missing_links(document)) == ["b.md", "c.png"]


def pitfalls() -> list[tuple[str, str, str]]:
    """Id, state and last column of every row of docs/pitfalls.md."""
    return ROW.findall((ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8"))


def test_every_pitfall_names_its_tests_or_says_when() -> None:
    """Goes red when a row calls itself closed and names no test, is open and does not say until when, or stands twice.

    A row that does not fit the table's form would not be seen, so all lines with an id are counted too.
    """
    text = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
    rows = pitfalls()
    assert [row[0] for row in rows] == re.findall(r"^\| (BL-\d+)", text, re.M)
    assert len({row[0] for row in rows}) == len(rows) > 0
    for name, state, here in rows:
        assert state in ("closed", "partly", "later"), name
        assert bool(NAMED.search(here)) or state == "later", f"{name} names no test"
        assert ("Later, with " in here) == (state != "closed"), f"{name} is {state}"


def test_tests_of_pitfalls_are_named_in_the_table() -> None:
    """Goes red when a test in tests/pitfalls/ is for a row that does not name it, or for none."""
    named = {name: here for name, _, here in pitfalls()}
    for path in sorted((ROOT / "tests" / "pitfalls").glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                ids = re.findall(r"BL-\d+", (ast.get_docstring(node) or "") + (ast.get_docstring(tree) or ""))
                assert ids, f"{node.name} names no row"
                for pitfall in ids:
                    assert f"`{path.relative_to(ROOT).as_posix()}::{node.name}`" in named[pitfall], pitfall

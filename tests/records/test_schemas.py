"""The types, the committed schemas and the frozen examples say the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from ttsbench.records.reader import parse_record
from ttsbench.records.schema import KINDS, schema_name, schema_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results_schema"
EXAMPLES = sorted((FOLDER / "examples").glob("*.json"))


def kind_of(example: Path) -> str:
    return example.stem.rsplit("-v", 1)[0]


def schema_beside(example: Path) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((FOLDER / f"{example.stem}.schema.json").read_text(encoding="utf-8"))
    return schema


@pytest.mark.parametrize("kind", KINDS)
def test_the_committed_schema_is_the_one_of_the_types(kind: str) -> None:
    """Red when a field changes without scripts/export_schemas.py, and so without a look at the version."""
    assert json.loads((FOLDER / f"{schema_name(kind)}.schema.json").read_text(encoding="utf-8")) == schema_of(kind)


def test_every_kind_has_an_example_of_its_newest_version() -> None:
    """Red when a new kind or version comes without a frozen example."""
    assert {schema_name(kind) for kind in KINDS} <= {example.stem for example in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_frozen_example_of_any_version_still_loads(example: Path) -> None:
    """Red when a change makes yesterday's results unreadable. Examples are never edited: add one for a new version."""
    record = parse_record(example.read_bytes(), KINDS[kind_of(example)], example.name)
    if example.stem == schema_name(kind_of(example)):
        assert json.loads(record.model_dump_json()) == json.loads(example.read_bytes())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_schema_accepts_its_example_and_refuses_a_changed_one(example: Path) -> None:
    """Red when the schema is so loose that it accepts anything."""
    validator = jsonschema.Draft202012Validator(schema_beside(example))
    record = json.loads(example.read_bytes())
    validator.validate(record)
    assert not validator.is_valid(record | {"unheard_of": 1})
    for field in record:
        assert not validator.is_valid({name: value for name, value in record.items() if name != field}), field


def test_the_export_script_agrees() -> None:
    """`scripts/export_schemas.py --check` is what CI runs."""
    command = [sys.executable, str(ROOT / "scripts" / "export_schemas.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_records_import_nothing_of_the_house() -> None:
    """Red when `ttsbench.records` imports another room: a result must be readable where only it is installed."""
    code = "import sys, ttsbench.records, ttsbench.records.schema; print(*[m for m in sys.modules if 'ttsbench' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    rooms = {name.split(".")[1] for name in done.stdout.split() if "." in name}
    assert rooms == {"records"}

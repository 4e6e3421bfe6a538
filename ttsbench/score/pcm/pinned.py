"""Everything that decides the findings, as one JSON value: its hash says which audits may be compared."""

from __future__ import annotations

from types import ModuleType

from pydantic import JsonValue

from ttsbench.score.pcm import dropout, edges, joints, pace, quiet, repeat, seam, signal, stored, whiten

REVISION = 2
"""Raised when the detectors' code changes what they find."""
MODULES: tuple[ModuleType, ...] = (signal, whiten, seam, joints, repeat, dropout, quiet, stored, pace, edges)


def pinned() -> dict[str, JsonValue]:
    """The revision, and every constant of every detector under its module's name."""
    constants: dict[str, JsonValue] = {module.__name__.rsplit(".", 1)[1]: _constants(module) for module in MODULES}
    return {"audit": "pcm", "revision": REVISION, "constants": constants}


def _constants(module: ModuleType) -> dict[str, JsonValue]:
    return {
        name: _plain(value)
        for name, value in sorted(vars(module).items())
        if name.isupper() and not name.startswith("_")
    }


def _plain(value: object) -> JsonValue:
    match value:
        case bool() | int() | float() | str():
            return value
        case tuple():
            return [_plain(part) for part in value]
        case joints.Weights(factors, constant):
            return [*factors, constant]
    raise TypeError(f"cannot pin {value!r}")

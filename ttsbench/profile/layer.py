"""One layer of a profile: what one file, or the command line, sets, with the place where it says so.

A layer is a flat map from dotted key to setting, so laying one over another merges nested maps key by key: a one-key
overlay changes one key. The walk is over YAML nodes rather than loaded values, since nodes know their lines, show
duplicate keys, and keep `true`, `1` and `"1"` apart. Every fault goes into the list of problems, and reading goes on.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from ttsbench.core import Problem
from ttsbench.profile.scalar import describe, read_scalar
from ttsbench.profile.types import KEYS, SECTIONS

BASE_CONFIG = "base_config"
COMMAND_LINE = "command line"


@dataclass(frozen=True)
class Setting:
    """A checked value and its origin: `file:line`, or the command line."""

    value: object
    origin: str


@dataclass
class Layer:
    """`settings` by dotted key; `faulty` keys were set to something unusable, so nothing may be concluded from them."""

    settings: dict[str, Setting] = field(default_factory=dict)
    faulty: set[str] = field(default_factory=set)
    base: Setting | None = None
    """The file this one is laid over."""

    def lay(self, other: Layer) -> None:
        """Put another layer on top of this one."""
        self.settings |= other.settings
        self.faulty |= other.faulty


def unreadable_layer() -> Layer:
    """Stands for a layer that could not be read: any key may have been meant."""
    return Layer(faulty=set(KEYS))


def read_document(text: str, source: str, problems: list[Problem]) -> Layer:
    """The layer that YAML `text` describes; `source` names it in errors."""
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else source
        problems.append(Problem(where, "valid YAML", str(getattr(error, "problem", None) or error)))
        return unreadable_layer()
    if not isinstance(node, yaml.MappingNode):
        got = "an empty file" if node is None else describe(node)
        problems.append(Problem(f"{source}:1", "a map of settings", got))
        return unreadable_layer()
    reader = _Reader(source, problems)
    reader.read_map(node, prefix="")
    return reader.layer


def read_overrides(overrides: Mapping[str, str], problems: list[Problem]) -> Layer:
    """The layer that command-line `key=value` pairs describe; keys are dotted, values are YAML."""
    layer = Layer()
    for key, text in overrides.items():
        reader = _Reader(COMMAND_LINE, problems)
        try:
            node = yaml.compose(text, Loader=yaml.BaseLoader) or yaml.ScalarNode("", "")
        except yaml.YAMLError:
            problems.append(Problem(f"{COMMAND_LINE} {key}", "a YAML value", repr(text)))
            layer.faulty |= {name for name in KEYS if name == key or name.startswith(f"{key}.")}
            continue
        reader.read_entry(key, node, COMMAND_LINE)
        layer.lay(reader.layer)
    return layer


class _Reader:
    """Walks one document and fills one layer."""

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self.layer = Layer()
        self._source = source
        self._problems = problems

    def read_map(self, node: yaml.MappingNode, prefix: str) -> None:
        for key, origin, value in self._entries(node, prefix):
            if key == BASE_CONFIG:
                self._read_base(value, origin)
            else:
                self.read_entry(key, value, origin)

    def read_entry(self, key: str, node: yaml.Node, origin: str) -> None:
        """Check one value against its key's rule and keep it."""
        if key in SECTIONS:
            self._read_section(key, node, origin)
        elif key in KEYS:
            self._read_value(key, node, origin)
        else:
            self._fail(origin, key, "a known key", f"the unknown key {key!r}", nearest_key(key))

    def _entries(self, node: yaml.MappingNode, prefix: str) -> Iterator[tuple[str, str, yaml.Node]]:
        """Dotted key, origin and value of each entry; a key that stands twice is a fault and its first value counts."""
        first: dict[str, str] = {}
        for key_node, value_node in node.value:
            origin = self._source if self._source == COMMAND_LINE else f"{self._source}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                self._problems.append(Problem(origin, "a key name", describe(key_node)))
                continue
            key = prefix + key_node.value
            if key in first:
                self._fail(origin, key, "each key once", f"it again after {first[key]}")
            else:
                first[key] = origin
                yield key, origin, value_node

    def _read_section(self, key: str, node: yaml.Node, origin: str) -> None:
        if isinstance(node, yaml.MappingNode):
            self.read_map(node, prefix=f"{key}.")
            return
        inside = [name.removeprefix(f"{key}.") for name in KEYS if name.startswith(f"{key}.")]
        self.layer.faulty |= {f"{key}.{name}" for name in inside}
        self._fail(origin, key, "a map of settings", describe(node), f"its keys are {', '.join(inside)}")

    def _read_value(self, key: str, node: yaml.Node, origin: str) -> None:
        rule = KEYS[key].rule
        if isinstance(node, yaml.ScalarNode) and rule.accepts(value := read_scalar(node)):
            self.layer.settings[key] = Setting(rule.convert(value), origin)
            return
        self.layer.faulty.add(key)
        text = node.value if isinstance(node, yaml.ScalarNode) else ""
        close = difflib.get_close_matches(text, rule.words, n=1)
        self._fail(origin, key, rule.expected, describe(node), f"did you mean {close[0]!r}?" if close else "")

    def _read_base(self, node: yaml.Node, origin: str) -> None:
        if isinstance(node, yaml.ScalarNode) and isinstance(path := read_scalar(node), str):
            self.layer.base = Setting(path, origin)
        else:
            self.layer.faulty |= KEYS.keys()
            self._fail(origin, BASE_CONFIG, "the path of a profile, relative to this file", describe(node))

    def _fail(self, origin: str, key: str, expected: str, got: str, hint: str = "") -> None:
        self._problems.append(Problem(f"{origin} {key}", expected, got, hint))


def nearest_key(key: str) -> str:
    """A hint that names the valid key nearest to a wrong one, also where it belongs into another map."""
    if key == BASE_CONFIG:
        return "only a file names its base"
    section, _, leaf = key.rpartition(".")
    siblings = {name.rpartition(".")[2]: name for name in KEYS if name.rpartition(".")[0] == section}
    anywhere = {name.rpartition(".")[2]: name for name in (*reversed(KEYS), *SECTIONS, BASE_CONFIG)}
    for cutoff, names in ((1.0, siblings), (1.0, anywhere), (0.5, siblings), (0.5, anywhere)):
        if close := difflib.get_close_matches(leaf.lower(), names, n=1, cutoff=cutoff):
            return f"did you mean {names[close[0]]!r}?"
    return f"the keys here are {', '.join(siblings or anywhere)}"

"""YAML scalars read by the YAML 1.2 core rules, where only `true` and `false` are booleans and `010` is ten.

PyYAML's own resolver follows YAML 1.1, where `off`, `1:30` and `010` turn into False, 90 and 8, and `1e-3` stays text.
"""

from __future__ import annotations

import re

import yaml

from ttsbench.profile.rules import Scalar

_CONSTANTS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")  # longer ones are no setting, and int() itself has a limit
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def read_scalar(node: yaml.ScalarNode) -> Scalar:
    """The value of a scalar node; a quoted one is text."""
    text: str = node.value
    if node.style is not None:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def describe(node: yaml.Node) -> str:
    """What came, for an error message."""
    if isinstance(node, yaml.MappingNode):
        return "a map"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    value = read_scalar(node) if isinstance(node, yaml.ScalarNode) else None
    return f"the text {value!r}" if isinstance(value, str) else show(value)


def show(value: object) -> str:
    """A value as YAML spells it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)

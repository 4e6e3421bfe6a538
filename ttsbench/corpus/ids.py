"""Utterance ids become file names, so they are judged before any work starts, by the strictest system's rules."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

MAX_ID_BYTES = 200
"""In UTF-8. A file name holds 255 bytes on common file systems; the rest is room for `.wav` and temporary suffixes."""

_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in "0123456789"}
)


def unsafe_id(utterance_id: str) -> str | None:
    """Why `<utterance_id>.wav` is no safe file name, in words that continue "got ..."; None if it is one."""
    if not utterance_id:
        return "an empty id"
    if utterance_id != utterance_id.strip():
        return f"{utterance_id!r}, with white space around it"
    if any(separator in utterance_id for separator in "/\\"):
        return f"{utterance_id!r}, with a path separator"
    if utterance_id.startswith("."):
        return f"{utterance_id!r}, with a dot in front"
    # Cc are control characters (NUL among them), Zl and Zp line and paragraph separators, Cs lone surrogates.
    if any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in utterance_id):
        return f"{utterance_id!r}, with a control character"
    if utterance_id.split(".")[0].rstrip().casefold() in _DEVICES:
        return f"{utterance_id!r}, which names a device on some systems"
    size = len(utterance_id.encode())
    if size > MAX_ID_BYTES:
        return f"{utterance_id[:20]!r}... of {size} bytes"
    return None


def file_name_key(utterance_id: str) -> str:
    """Equal for ids whose files would be one file where names ignore case or Unicode composition.

    Unicode's canonical caseless match (definition D145): folding case can undo a normal form, hence the second one.
    """
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", utterance_id).casefold())


def repeats(numbered_ids: Iterable[tuple[int, str]]) -> list[tuple[int, str, int, str]]:
    """Ids whose file an earlier id already has: (line, id, earlier line, earlier id). Empty ids are left alone."""
    first: dict[str, tuple[int, str]] = {}
    found = []
    for line, utterance_id in numbered_ids:
        if not utterance_id:
            continue
        earlier_line, earlier = first.setdefault(file_name_key(utterance_id), (line, utterance_id))
        if earlier_line != line:
            found.append((line, utterance_id, earlier_line, earlier))
    return found

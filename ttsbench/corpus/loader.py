"""From what a user types (a list file, a Seed-TTS folder, a bundled name) to a checked corpus."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import get_args

from ttsbench.assets import asset_folder
from ttsbench.core import InvalidInput, Problem
from ttsbench.corpus.seed_tts import parse_list
from ttsbench.corpus.types import Corpus, Locale

BUNDLED: dict[str, str] = {"mini-en": "mini_en"}
"""Bundled corpora and their asset folders; each folder is laid out as a Seed-TTS root."""

LIST_NAME = "meta.lst"
LOCALES: tuple[Locale, ...] = get_args(Locale)


def load_corpus(path_or_name: str | Path, locale: str | None = None) -> Corpus:
    """Load every row of a list, in file order.

    `path_or_name` is a list file (`meta.lst`, `hardcase.lst`), a folder that holds `meta.lst`, a Seed-TTS root with
    `en/` or `zh/` inside, or the name of a bundled corpus (write `./mini-en` for a file or folder called so).
    `locale` ("en" or "zh") is needed where the folder's name does not say it.

    Raises InvalidInput for anything structural, all faults at once. Contents (empty texts, missing clips) are judged
    row by row, with `content_problem`, by whoever runs them.
    """
    if locale is not None and locale not in LOCALES:
        raise InvalidInput(Problem("locale", _locale_words(), repr(locale)))
    bundled = BUNDLED.get(str(path_or_name))
    path = _find_list(Path(path_or_name) if bundled is None else asset_folder(bundled), locale)
    settled = _settle_locale(path, locale)
    data = _read(path)
    fields, rows = parse_list(data, path)
    return Corpus(
        name=f"{path.parent.name}/{path.name}" if bundled is None else str(path_or_name),
        path=path,
        locale=settled,
        fields=fields,
        sha256=hashlib.sha256(data).hexdigest(),
        rows=rows,
    )


def _locale_words() -> str:
    return " or ".join(f"'{locale}'" for locale in LOCALES)


def _find_list(path: Path, locale: str | None) -> Path:
    """The absolute path of the list file. Links are not followed: clips lie beside the list as the user names it."""
    path = path.absolute()
    # os.path answers False, where Path raises, for a name that cannot exist (too long, holding NUL).
    if not os.path.exists(path):
        hint = f"bundled corpora are: {', '.join(BUNDLED)}"
        raise InvalidInput(Problem(str(path), "a list file or a Seed-TTS folder", "no such file or folder", hint))
    if not path.is_dir():
        return path
    if (path / LIST_NAME).is_file():
        return path / LIST_NAME
    inside = [path / name / LIST_NAME for name in ([locale] if locale else LOCALES)]
    found = [candidate for candidate in inside if candidate.is_file()]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput(Problem(str(path), f"a locale, {_locale_words()}", "none", "the folder has lists for both"))
    searched = " or ".join(str(candidate.relative_to(path)) for candidate in inside)
    raise InvalidInput(Problem(str(path), f"{LIST_NAME} or {searched} in it", "a folder without them"))


def _settle_locale(path: Path, locale: str | None) -> Locale:
    """The locale that the list's folder is named after and the one asked for, if they do not contradict each other."""
    named: dict[str, Locale] = {name: name for name in LOCALES}
    by_folder = named.get(path.parent.name)
    asked = None if locale is None else named[locale]
    if by_folder and asked and by_folder != asked:
        expected = f"locale '{by_folder}', after the list's folder"
        raise InvalidInput(Problem(str(path), expected, repr(asked), "leave the locale out, or rename the folder"))
    settled = by_folder or asked
    if settled is None:
        expected = f"a folder named {_locale_words()}, or a locale"
        raise InvalidInput(Problem(str(path), expected, repr(path.parent.name), "say which language the texts are in"))
    return settled


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(Problem(str(path), "a readable file", error.strerror or str(error))) from error

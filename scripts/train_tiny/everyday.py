"""Everyday sentences from the grammar in `everyday.toml`: what people say at home, at work and on the way.

Dictionary texts hardly ever ask, exclaim, or say "I", "didn't" and "tomorrow". Here these are common, in every tense,
and the words around them change so much that no sentence can be learned by heart.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

GRAMMAR = Path(__file__).with_name("everyday.toml")

KINDS = {"statement": 0.46, "question": 0.32, "exclamation": 0.14, "two": 0.08}
"""How often each kind of sentence is drawn."""

REFERENCE = re.compile(r"\{(\*?)(\w+)(\+\w+)?\}")
DEEPEST = 8
"""Phrases nest no deeper; what would is drawn again."""


def plural(noun: str) -> str:
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y$", noun) else noun + "s"


def noun_forms(entry: str) -> dict[str, str]:
    """`dog` or `mouse/mice`."""
    one, _, many = entry.partition("/")
    return {"": one, "+s": many or plural(one)}


def verb_forms(entry: str) -> dict[str, str]:
    """`look at` (regular, its first word inflected) or `eat/eats/ate/eaten/eating`."""
    names = ("", "+s", "+ed", "+en", "+ing")
    if "/" in entry:
        return dict(zip(names, entry.split("/"), strict=True))
    verb, space, rest = entry.partition(" ")
    past = verb + "d" if verb.endswith("e") else re.sub(r"([^aeiou])y$", r"\1i", verb) + "ed"
    going = verb.removesuffix("e") + "ing"
    return dict(zip(names, (f"{form}{space}{rest}" for form in (verb, plural(verb), past, past, going)), strict=True))


def adjective_forms(entry: str) -> dict[str, str]:
    """`small` (regular) or `good/better/best`."""
    names = ("", "+er", "+est")
    if "/" in entry:
        return dict(zip(names, entry.split("/"), strict=True))
    stem = re.sub(r"([^aeiou])y$", r"\1i", entry).removesuffix("e")
    return dict(zip(names, (entry, stem + "er", stem + "est"), strict=True))


FORMS: Mapping[str, Callable[[str], dict[str, str]]] = {
    "nouns": noun_forms,
    "verbs": verb_forms,
    "adjectives": adjective_forms,
    "lists": lambda entry: {"": entry},
}


class Grammar:
    """Draws sentences; all of its chance comes from the generator it is given."""

    def __init__(self, path: Path = GRAMMAR) -> None:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        self._phrases: dict[str, list[str]] = tables["phrases"]
        self._words = {
            name: [forms(" ".join(entry.split())) for entry in text.split(",")]
            for kind, forms in FORMS.items()
            for name, text in tables[kind].items()
        }

    def sentence(self, rng: random.Random) -> str:
        """One sentence, or two, with marks and capitals."""
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        return finish(self.expand(kind, "", rng))

    def expand(self, name: str, form: str, rng: random.Random, depth: int = 0) -> str:
        """One of the list or phrases `name`, in `form`."""
        if name in self._words:
            text = rng.choice(self._words[name])[form]
        else:
            # Deep down only the phrases that end soon are left: those with the fewest references.
            choices = self._phrases[name]
            text = rng.choice(choices) if depth < DEEPEST else min(choices, key=lambda phrase: phrase.count("{"))

        def fill(match: re.Match[str]) -> str:
            passed_on, inner, own_form = match.groups()
            return self.expand(inner, form if passed_on else own_form or "", rng, depth + 1)

        return REFERENCE.sub(fill, text)


def finish(text: str) -> str:
    """Before a vowel "a" becomes "an", and every sentence begins with a capital."""
    text = re.sub(r"\ba (?=(?!u[ns][ei]|eu|one\b|used)[aeiou]|hour|honest)", "an ", text)
    text = re.sub(r"\b(\w+) and \1\b", r"\1", text)
    return re.sub(r"(^|[.?!] )([a-z])", lambda match: match[1] + match[2].upper(), text)

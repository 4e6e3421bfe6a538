"""Chooses the 64 mini-en sentences from `candidates.txt` and writes `meta.lst`.

    python scripts/make_mini_en/make_list.py WORDNET [--seen FILE]...

WORDNET is the folder with `index.noun`, `data.noun` and so on. On Debian:

    apt-get download wordnet-base && dpkg-deb -x wordnet-base_*.deb unpacked   # then unpacked/usr/share/wordnet

The choice is made by rules on text alone: no sentence was taken or left for what a model made of it. The rules are in
`rules.py`; what passes them is put in the order of a hash, and each kind and length takes its quota from the front.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from itertools import chain
from pathlib import Path

from rules import Seen, two_spellings, uncommon_word, wrong_form
from wordnet import WordNet

HERE = Path(__file__).parent
LIST = HERE.parents[1] / "ttsbench" / "assets" / "mini_en" / "en" / "meta.lst"
SALT = "mini-en 1"

LONGEST = {"short": 30, "medium": 50, "long": 70, "very long": 88}
QUOTAS = {
    ("statement", "short"): 8, ("statement", "medium"): 14, ("statement", "long"): 16, ("statement", "very long"): 8,
    ("question", "short"): 2, ("question", "medium"): 6, ("question", "long"): 4,
    ("exclamation", "short"): 3, ("exclamation", "medium"): 3,
}  # fmt: skip
"""Sentences by kind and number of characters: 64 in all."""


def kind(text: str) -> tuple[str, str]:
    mark = {".": "statement", "?": "question", "!": "exclamation"}[text[-1]]
    return mark, next(name for name, longest in LONGEST.items() if len(text) <= longest)


def passing(candidates: list[str], wordnet: WordNet, seen: Seen) -> list[str]:
    """Candidates that break no rule. The others go to stderr with the rule they broke."""
    kept = []
    for text in candidates:
        reason = wrong_form(text) or uncommon_word(text, wordnet) or two_spellings(text, wordnet) or seen.reason(text)
        if reason is None:
            kept.append(text)
        else:
            print(f"left out for {reason}: {text}", file=sys.stderr)
    return kept


def choose(sentences: list[str]) -> list[str]:
    """The front of every quota, in hash order, so that any first part of the list is a fair mix of the whole."""
    room = dict(QUOTAS)
    chosen = []
    for text in sorted(sentences, key=lambda text: hashlib.sha256(f"{SALT}|{text}".encode()).digest()):
        if room.get(kind(text), 0):
            room[kind(text)] -= 1
            chosen.append(text)
    if missing := {key: count for key, count in room.items() if count}:
        sys.exit(f"not enough sentences; still wanted: {missing}")
    return chosen


def rows(sentences: list[str], clips: list[tuple[str, str]]) -> list[str]:
    """Seed-TTS lines of four fields. Clips take turns; an id joins the clip's name and the sentence's number."""
    lines = []
    for number, text in enumerate(sentences):
        voice, prompt_text = clips[number % len(clips)]
        lines.append(f"{voice}-{number + 1:03d}|{prompt_text}|prompt-wavs/{voice}.wav|{text}")
    return lines


def read_clips() -> list[tuple[str, str]]:
    """(voice, what its clip says), in file order."""
    pairs = [line.split("|") for line in (HERE / "clip_texts.txt").read_text(encoding="utf-8").splitlines()]
    return [(voice, text) for voice, text in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wordnet", type=Path, help="folder of the unpacked WordNet database")
    parser.add_argument("--seen", type=Path, action="append", default=[], help="more text to keep clear of, by line")
    arguments = parser.parse_args()
    wordnet = WordNet(arguments.wordnet)
    more = chain.from_iterable(path.read_text(encoding="utf-8").splitlines() for path in arguments.seen)
    candidates = (HERE / "candidates.txt").read_text(encoding="utf-8").splitlines()
    seen = Seen(chain(wordnet.texts(), more))
    clips = read_clips()
    if passing([text for _, text in clips], wordnet, seen) != [text for _, text in clips]:
        sys.exit("a text of clip_texts.txt breaks a rule")
    kept = passing(candidates, wordnet, seen)
    lines = rows(choose(kept), clips)
    LIST.parent.mkdir(parents=True, exist_ok=True)
    LIST.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(kept)} of {len(candidates)} candidates passed, {len(lines)} chosen: {LIST}", file=sys.stderr)


if __name__ == "__main__":
    main()

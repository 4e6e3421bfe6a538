"""Makes the TEXT folder: the training sentences as teacher symbols and text tokens, and the tokenizer they are cut by.

    python -m scripts.train_tiny.text --wordnet WORDNET --teacher WORK OUT

WORDNET  the unpacked WordNet database (`index.noun`, `data.noun`, ...), see `make_mini_en/README.md`
WORK     the folder with the teacher's `vocab.json`, see there too
OUT      text.npz, sentences.txt, text.json, vocab.json, merges.txt, tokenizer_config.json, tokenizer.json

The first `corpus.HELD_OUT` sentences are never trained on. Needs the library espeak-ng (1.51). The same inputs give the
same files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from functools import cache
from itertools import chain
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from scripts.train_tiny.corpus import HELD_OUT_PARTS
from scripts.train_tiny.espeak import Espeak
from scripts.train_tiny.sentences import Sentence, collect
from scripts.train_tiny.tokenizer_files import bpe, read_merges, write_json, write_tokenizer

SEED = 20_261_130
FEWEST_SYMBOLS, MOST_SYMBOLS = 8, 110
"""A style table of the teacher has a row for every number of symbols up to this."""
CLOSING = ".?!,"
MINI_EN = Path(__file__).parents[2] / "ttsbench" / "assets" / "mini_en" / "en" / "meta.lst"
SOURCES = {
    "example, gloss": "WordNet 3.0 usage examples and glosses, WordNet licence, Princeton University",
    "everyday": "grammar of this repository (everyday.toml), Apache-2.0",
    "random": "words of the above in random order, Apache-2.0",
    "phonemes": "espeak-ng 1.51, voice en-us (the program is GPL-3.0-or-later, its output is not)",
}


def mini_en_texts(path: Path = MINI_EN) -> list[str]:
    """What mini-en's clips say and what it asks for."""
    fields = [line.split("|") for line in path.read_text(encoding="utf-8").splitlines()]
    return sorted({text for _, clip, _, sentence in fields for text in (clip, sentence)})


def symbols_of(texts: list[str], processes: int) -> list[str | None]:
    """The teacher's symbols of every text, None where they do not match its words."""
    with Pool(processes) as pool:
        return pool.map(_symbols, texts, chunksize=500)


def _symbols(text: str) -> str | None:
    return _espeak().symbols(text)


@cache
def _espeak() -> Espeak:
    """One a process: the library has one state."""
    return Espeak()


def spoken_count(tokens: list[str]) -> int:
    """Tokens in front of the closing marks."""
    count = len(tokens)
    while tokens[count - 1] in CLOSING:
        count -= 1
    return count


def arrays(symbols: list[list[int]], texts: list[str], tokenizer: Tokenizer) -> dict[str, np.ndarray]:
    """The content of `text.npz`. N sentences, P symbols of all of them, T tokens of all of them, V tokens known:
    phonemes uint8 [P], phoneme_counts uint8 [N], tokens uint16 [T], token_counts and spoken_counts uint8 [N],
    starts_word bool [V]."""
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    starts = np.zeros(tokenizer.get_vocab_size(), bool)
    for token, number in tokenizer.get_vocab().items():
        starts[number] = token.startswith("Ġ")
    return {
        "phonemes": np.array(list(chain.from_iterable(symbols)), np.uint8),
        "phoneme_counts": np.array([len(one) for one in symbols], np.uint8),
        "tokens": np.array(list(chain.from_iterable(one.ids for one in encodings)), np.uint16),
        "token_counts": np.array([len(one.ids) for one in encodings], np.uint8),
        "spoken_counts": np.array([spoken_count(one.tokens) for one in encodings], np.uint8),
        "starts_word": starts,
    }


def summary(sentences: list[Sentence], data: dict[str, np.ndarray], merges: int) -> dict[str, Any]:
    content = hashlib.sha256()
    for name, values in data.items():
        content.update(name.encode() + values.tobytes())
    return {
        "sentences": len(sentences),
        "held_out": HELD_OUT_PARTS,
        "by_source": dict(sorted(Counter(sentence.source for sentence in sentences).items())),
        "by_end": dict(sorted(Counter(sentence.text[-1] for sentence in sentences).items())),
        "tokens": int(data["token_counts"].sum()),
        "symbols": int(data["phoneme_counts"].sum()),
        "merges": merges,
        "seed": SEED,
        "sources": SOURCES,
        "sha256": {
            "arrays": content.hexdigest(),
            "sentences.txt": hashlib.sha256("".join(f"{one.text}\n" for one in sentences).encode()).hexdigest(),
        },
    }


def write_text(folder: Path, wordnet: Path, ids: dict[str, int], processes: int) -> dict[str, Any]:
    """Write the whole folder and return what `text.json` says."""
    candidates = collect(wordnet, mini_en_texts(), SEED)
    spoken = symbols_of([sentence.text for sentence in candidates], processes)
    kept = [
        (sentence, [ids[symbol] for symbol in symbols])
        for sentence, symbols in zip(candidates, spoken, strict=True)
        if symbols is not None and FEWEST_SYMBOLS <= len(symbols) <= MOST_SYMBOLS and ids.keys() >= set(symbols)
    ]
    sentences = [sentence for sentence, _ in kept]
    merges = read_merges()
    data = arrays([symbols for _, symbols in kept], [sentence.text for sentence in sentences], bpe(merges))
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, merges)
    np.savez_compressed(folder / "text.npz", allow_pickle=False, **data)
    (folder / "sentences.txt").write_text("".join(f"{one.text}\n" for one in sentences), encoding="utf-8")
    report = summary(sentences, data, len(merges))
    write_json(folder / "text.json", report)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    ids = json.loads((options.teacher / "vocab.json").read_text(encoding="utf-8"))["vocab"]
    print(json.dumps(write_text(options.out, options.wordnet, ids, options.processes), indent=1))


if __name__ == "__main__":
    main()

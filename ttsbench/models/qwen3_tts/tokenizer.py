"""Text to token ids: the Qwen2 byte-level BPE of the published folders.

User text is only ever encoded with the plain vocabulary, so a control token's spelling inside it ("<|im_end|>") becomes
ordinary pieces and can never steer the model. Control ids come from `config.json`, never from text.

Two pre-tokenizer splits exist for this vocabulary: Qwen's own, the default here, and the one transformers applies with
`fix_mistral_regex=True`. They differ on contractions, case borders and slashes; which one was used is `split`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttsbench.core import InvalidInput, Problem
from ttsbench.models.qwen3_tts.config import read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPLITS = {
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "mistral": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
"""Regular expressions that cut text into the pieces BPE works within."""


class TextTokenizer:
    """Encodes plain text; knows the three pieces chat templates are made of."""

    def __init__(self, bpe: Tokenizer, named: dict[str, int], split: str) -> None:
        self._bpe = bpe
        self._named = named
        self.split = split
        self.assistant = self._single("assistant")
        self.newline = self._single("\n")

    @classmethod
    def from_folder(cls, folder: Path, split: str = "qwen2") -> TextTokenizer:
        """Read `vocab.json` + `merges.txt` (the published form), else `tokenizer.json`. Raises InvalidInput."""
        if split not in SPLITS:
            raise InvalidInput(Problem("tokenizer split", " or ".join(SPLITS), repr(split)))
        vocab, merges, packed = folder / "vocab.json", folder / "merges.txt", folder / "tokenizer.json"
        named = _named_tokens(folder)
        if vocab.exists() and merges.exists():
            return cls(_bpe(read_json(vocab), _merge_pairs(merges.read_text(encoding="utf-8")), split), named, split)
        if packed.exists():
            data = read_json(packed)
            named |= {token["content"]: token["id"] for token in data.get("added_tokens", [])}
            model = data["model"]
            pairs = [tuple(m.split(" ", 1)) if isinstance(m, str) else tuple(m) for m in model["merges"]]
            return cls(_bpe(model["vocab"], pairs, split), named, split)
        raise InvalidInput(Problem(str(folder), "vocab.json and merges.txt, or tokenizer.json", "neither"))

    def encode(self, text: str) -> list[int]:
        """Token ids of `text` as it stands; nothing in it is taken as a control token."""
        return list(self._bpe.encode(text, add_special_tokens=False).ids)

    def _single(self, piece: str) -> int:
        """The id of a piece the templates need as one token."""
        ids = [self._named[piece]] if piece in self._named else self.encode(piece)
        if len(ids) != 1:
            raise InvalidInput(Problem("tokenizer", f"one token for {piece!r}", f"{len(ids)} tokens {ids}"))
        return ids[0]


def _bpe(vocab: dict[str, int], merges: list[Any], split: str) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    bpe = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLITS[split]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return bpe


def _merge_pairs(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#version")]
    return [(first, second) for first, second in (line.split(" ", 1) for line in lines)]


def _named_tokens(folder: Path) -> dict[str, int]:
    path = folder / "tokenizer_config.json"
    if not path.exists():
        return {}
    return {token["content"]: int(number) for number, token in read_json(path).get("added_tokens_decoder", {}).items()}

"""Text to token ids: the Qwen2 byte-level BPE of the published folders.

User text is only ever encoded with the plain vocabulary, so a control token's spelling inside it ("<|im_end|>") becomes
ordinary pieces and can never steer the model. Control ids come from `config.json`, never from text.

Two pre-tokenizer splits exist for this vocabulary: Qwen's own, the default here, and the one transformers applies with
`fix_mistral_regex=True`. They differ on contractions, case borders and slashes; which one was used is `split`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttsbench.core import InvalidInput, Problem, RowError
from ttsbench.models.qwen3_tts.config import Fields, read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPLITS = {
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
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
            pairs = _merge_pairs(merges.read_text(encoding="utf-8"))
            return cls(_bpe(read_json(vocab), pairs, split, folder), named, split)
        if packed.exists():
            fields = Fields(read_json(packed), str(packed))
            model = fields.section("model")
            table, listed = model.get("vocab", dict), model.get("merges", list)
            named |= {token["content"]: token["id"] for token in fields.default("added_tokens", [])}
            fields.raise_problems()
            pairs = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in listed]
            return cls(_bpe(table, pairs, split, folder), named, split)
        raise InvalidInput(Problem(str(folder), "vocab.json and merges.txt, or tokenizer.json", "neither"))

    def encode(self, text: str) -> list[int]:
        """Token ids of `text` as it stands; nothing in it is taken as a control token.

        Raises RowError `invalid_text` for text that is no Unicode (half of a surrogate pair).
        """
        try:
            return list(self._bpe.encode(text, add_special_tokens=False).ids)
        except TypeError as error:
            raise RowError("invalid_text", f"{text!r} is no Unicode text: half of a surrogate pair") from error

    def _single(self, piece: str) -> int:
        """The id of a piece the templates need as one token."""
        ids = [self._named[piece]] if piece in self._named else self.encode(piece)
        if len(ids) != 1:
            raise InvalidInput(Problem("tokenizer", f"one token for {piece!r}", f"{len(ids)} tokens {ids}"))
        return ids[0]


def _bpe(vocab: dict[str, int], merges: list[Any], split: str, folder: Path) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    lacking = set(pre_tokenizers.ByteLevel.alphabet()) - vocab.keys()
    if lacking:
        got = f"{len(lacking)} of them are missing: text with these bytes would lose them"
        raise InvalidInput(Problem(f"{folder}: tokenizer", "all 256 byte tokens in the vocabulary", got))
    try:
        bpe = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    except Exception as error:  # the library raises bare Exceptions for merges that do not fit the vocabulary
        raise InvalidInput(Problem(f"{folder}: tokenizer", "a vocabulary and merges that fit", str(error))) from error
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLITS[split]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return bpe


def _merge_pairs(text: str) -> list[Any]:
    """Pairs of a `merges.txt`, whose first line may name its version."""
    lines = text.split("\n")
    if lines[0].startswith("#version"):
        del lines[0]
    return [tuple(line.split(" ")) for line in lines if line.strip()]


def _named_tokens(folder: Path) -> dict[str, int]:
    path = folder / "tokenizer_config.json"
    if not path.exists():
        return {}
    return {token["content"]: int(number) for number, token in read_json(path).get("added_tokens_decoder", {}).items()}

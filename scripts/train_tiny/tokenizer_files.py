"""The text vocabulary of the tiny checkpoints as the files that a published folder has.

Ids: the control tokens, the 256 bytes in the order of their stand-in characters, then one token a merge. "assistant"
is a control token too, since chat templates need it as one piece.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttsbench.models.qwen3_tts.tokenizer import SPLITS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CONTROL = ("<|im_start|>", "<|im_end|>", "assistant", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")
MERGES = Path(__file__).with_name("merges.txt")
"""The pairs that `vocabulary` chose, one a line."""

Merge = tuple[str, str]


def read_merges(path: Path = MERGES) -> list[Merge]:
    pairs = (line.split(" ") for line in path.read_text(encoding="utf-8").splitlines())
    return [(left, right) for left, right in pairs]


def vocabulary(merges: list[Merge]) -> dict[str, int]:
    """Token to id."""
    from tokenizers import pre_tokenizers

    tokens = [*CONTROL, *sorted(pre_tokenizers.ByteLevel.alphabet()), *(left + right for left, right in merges)]
    return {token: number for number, token in enumerate(tokens)}


def bpe(merges: list[Merge]) -> Tokenizer:
    """The plain tokenizer, to which a control token's spelling is text like any other."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocab=vocabulary(merges), merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(SPLITS["qwen2"]), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def write_tokenizer(folder: Path, merges: list[Merge]) -> None:
    """`vocab.json`, `merges.txt`, `tokenizer_config.json` and `tokenizer.json`."""
    from tokenizers import AddedToken

    write_json(folder / "vocab.json", vocabulary(merges))
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in merges)]
    (folder / "merges.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_json(folder / "tokenizer_config.json", config())
    packed = bpe(merges)
    packed.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in CONTROL])
    packed.save(str(folder / "tokenizer.json"))


def config() -> dict[str, Any]:
    flags = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<tts_pad>",
        "eos_token": "<|im_end|>",
        "bos_token": None,
        "unk_token": None,
        "split_special_tokens": False,
        "added_tokens_decoder": {str(number): {"content": token, **flags} for number, token in enumerate(CONTROL)},
    }


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

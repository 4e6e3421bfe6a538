"""A Qwen2-style byte-level BPE small enough to commit: 256 byte tokens, some merges, the special tokens behind them."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")
VOCAB_SIZE = 384
# "assistant" must be one token, since the package slices the role header as three ids. Newline runs, contractions, a
# word that joins two cases, accents and Chinese give merges that a wrong pre-tokeniser would apply differently.
CORPUS = [
    *["assistant\n", "user\n"] * 60,
    *["HelloWorld iPhone", "hello\n\n", "it's we're I'll don't", " café naïve", "你好，世界。", "...\n"] * 12,
    "the quick brown fox jumps over the lazy dog and then the other thing sings in the morning with her brother",
    "Speak slowly in a calm and happy voice. The reference says something short, and/or CamelCase",
] * 4


def write_tokenizer(folder: Path) -> dict[str, int]:
    """Write vocab.json, merges.txt and tokenizer_config.json; return the id of every special token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=VOCAB_SIZE, initial_alphabet=alphabet, show_progress=False)
    )
    model = json.loads(tokenizer.to_str())["model"]
    if "assistant" not in model["vocab"]:
        raise ValueError("the corpus did not make 'assistant' one token")
    ids = {name: len(model["vocab"]) + i for i, name in enumerate(SPECIALS)}
    (folder / "vocab.json").write_text(json.dumps(model["vocab"], ensure_ascii=False, indent=0), encoding="utf-8")
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(_tokenizer_config(ids), indent=1), encoding="utf-8")
    return ids


def _tokenizer_config(ids: dict[str, int]) -> dict[str, object]:
    flags = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "bos_token": None,
        "unk_token": None,
        "split_special_tokens": False,
        "added_tokens_decoder": {str(i): {"content": name, **flags} for name, i in ids.items()},
    }

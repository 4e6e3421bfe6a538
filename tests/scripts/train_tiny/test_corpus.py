"""Text and shards on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from scripts.train_tiny import corpus
from scripts.train_tiny.config import HOP


def tensors(frames: list[int]) -> dict[str, torch.Tensor]:
    total = sum(frames)
    counts = torch.tensor(frames, dtype=torch.int32)
    return {
        "audio": torch.arange(total, dtype=torch.int16)[:, None].repeat(1, HOP),
        "labels": torch.zeros(total, corpus.SLOTS, dtype=torch.uint8),
        "said": torch.zeros(total, dtype=torch.uint8),
        "sentence": counts * 10,
        "voice": counts * 0,
        "frames": counts,
    }


def test_a_shard_comes_back_with_its_offsets(tmp_path: Path) -> None:
    path = corpus.shard_path(tmp_path, "named", 3)
    corpus.save_tensors(path, tensors([2, 3]))
    shard = corpus.load_shard(path)
    assert path.name == "named-00003.safetensors"
    assert shard.offsets.tolist() == [0, 2, 5]
    assert shard.audio[2:5, 0].tolist() == [2, 3, 4]


def test_utterances_that_do_not_make_up_the_frames_are_refused(tmp_path: Path) -> None:
    """Red without the check: every later utterance would be read from the wrong place."""
    path = corpus.shard_path(tmp_path, "named", 0)
    corpus.save_tensors(path, {**tensors([2, 3]), "frames": torch.tensor([2, 2], dtype=torch.int32)})
    with pytest.raises(ValueError, match="4 frames of utterances, 5 of audio"):
        corpus.load_shard(path)


def test_only_complete_shards_are_listed(tmp_path: Path) -> None:
    """Red when part files or the codes beside a shard are taken for shards."""
    for name in ("named-00001", "named-00000", "many-00000"):
        corpus.save_tensors(tmp_path / f"{name}.safetensors", tensors([1]))
    (tmp_path / "named-00000.codes.safetensors").write_bytes(b"")
    (tmp_path / "named-00002.safetensors.77.part").write_bytes(b"")
    assert [path.stem for path in corpus.shards(tmp_path, "named")] == ["named-00000", "named-00001"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when tensors are written under their final name."""
    path = tmp_path / "many-00000.safetensors"
    corpus.save_tensors(path, tensors([4]))

    def full_disk(tensors: dict[str, torch.Tensor], target: Path) -> None:
        Path(target).write_bytes(b"half of it")
        raise OSError("no space left")

    monkeypatch.setattr(corpus, "save_file", full_disk)
    with pytest.raises(OSError, match="no space"):
        corpus.save_tensors(path, tensors([5]))
    assert len(corpus.load_shard(path).audio) == 4


def text() -> dict[str, np.ndarray]:
    return {
        "phonemes": np.array([50, 51, 4, 60, 4], np.uint8),
        "phoneme_counts": np.array([3, 2], np.uint8),
        "tokens": np.array([300, 301, 13, 302, 13], np.uint16),
        "token_counts": np.array([3, 2], np.uint8),
        "spoken_counts": np.array([2, 1], np.uint8),
        "starts_word": np.zeros(400, bool),
    }


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    np.savez(path, allow_pickle=False, **arrays)


def test_text_is_read_by_sentence(tmp_path: Path) -> None:
    """Red when starts are summed in the counts' own eight bits."""
    many = {name: values if name == "starts_word" else np.tile(values, 200) for name, values in text().items()}
    save_arrays(tmp_path / "text.npz", many)
    read = corpus.read_text(tmp_path)
    assert len(read) == 400
    assert read.symbols(399).tolist() == [60, 4]
    assert read.token_ids(398).tolist() == [300, 301, 13]


def test_text_whose_counts_disagree_is_refused(tmp_path: Path) -> None:
    save_arrays(tmp_path / "text.npz", {**text(), "token_counts": np.array([3, 3], np.uint8)})
    with pytest.raises(ValueError, match="disagree"):
        corpus.read_text(tmp_path)

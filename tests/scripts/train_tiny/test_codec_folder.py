"""The shipped codec goes back into training as it came out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from scripts.train_tiny.codec_folder import unpack
from scripts.train_tiny.codes import Fit
from ttsbench.assets import asset_folder


def test_the_shipped_codec_belongs_to_the_shipped_fit(tmp_path: Path) -> None:
    """Networks up to half precision, books exactly the fit's. Red when either file is replaced without the other."""
    tiny = asset_folder("tiny")
    unpack(tiny, tmp_path)
    stored = load_file(tiny / "speech_tokenizer" / "model.safetensors")
    for name in ("decoder", "encoder"):
        for key, weight in load_file(tmp_path / f"{name}.safetensors").items():
            torch.testing.assert_close(weight, stored[f"{name}.{key}"].float(), rtol=1e-3, atol=1e-3)
    assert Fit.load(tmp_path / "codes.safetensors").books.shape == (16, 256, 64)


def test_another_codec_is_refused(tmp_path: Path) -> None:
    """Red when the books are not compared."""
    other = tmp_path / "other"
    shutil.copytree(asset_folder("tiny"), other)
    file = other / "speech_tokenizer" / "model.safetensors"
    stored = load_file(file)
    key = next(key for key in stored if key.startswith("decoder.") and key.endswith("embedding_sum"))
    save_file({**stored, key: stored[key].flip(0)}, file)
    with pytest.raises(SystemExit, match="is not of the fit"):
        unpack(other, tmp_path / "out")

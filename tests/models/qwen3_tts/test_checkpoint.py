"""A checkpoint's parts must agree before any weight is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from tests.models.qwen3_tts.exactness import GOLDEN
from ttsbench.core import InvalidInput
from ttsbench.models.qwen3_tts.checkpoint import Checkpoint

CODEC = "speech_tokenizer/config.json"


@pytest.mark.parametrize(
    ("file", "path", "value", "words"),
    [
        (CODEC, ("decoder_config", "codebook_size"), 32, "decoder_config: codebook_size: expected 64"),
        (CODEC, ("encoder_config", "codebook_size"), 128, "encoder_config: codebook_size: expected 64"),
        ("config.json", ("talker_config", "num_code_groups"), 8, "expected 8 codebooks as in config.json, got 16"),
        ("config.json", ("speaker_encoder_config", "enc_dim"), 23, "enc_dim: expected the talker's width 24, got 23"),
    ],
)
def test_parts_that_disagree_are_refused(
    tmp_path: Path, file: str, path: tuple[str, str], value: int, words: str
) -> None:
    """Red when the check is dropped: the code predictor would draw codes that the codec has no row for, or a clip's
    codes would have no embedding. The weights' shapes would not tell, since each part fits its own config.
    """
    folder = shutil.copytree(GOLDEN / "toy-base", tmp_path / "toy")
    data = json.loads((folder / file).read_text())
    section, key = path
    data[section][key] = value
    if key == "num_code_groups":
        data[section]["code_predictor_config"][key] = value
    (folder / file).write_text(json.dumps(data))
    with pytest.raises(InvalidInput) as caught:
        Checkpoint.load(folder, torch.device("cpu"), torch.float32)
    assert words in str(caught.value)


def test_the_untouched_folder_loads(tmp_path: Path) -> None:
    folder = shutil.copytree(GOLDEN / "toy-base", tmp_path / "toy")
    assert Checkpoint.load(folder, torch.device("cpu"), torch.float32).model.speaker_encoder is not None

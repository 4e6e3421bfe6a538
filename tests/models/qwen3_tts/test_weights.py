"""Weights fit name by name and shape by shape, or one error lists all that does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ttsbench.core import InvalidInput
from ttsbench.models.qwen3_tts.weights import MAX_LISTED, load_weights, read_tensors, weight_files

CPU = torch.device("cpu")


class Toy(nn.Module):
    """Two linear layers and a counter."""

    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2, bias=False)
        self.register_buffer("steps", torch.zeros(2, dtype=torch.int64))


def toy_tensors(dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    return {
        "first.weight": torch.randn(4, 3).to(dtype),
        "first.bias": torch.randn(4).to(dtype),
        "second.weight": torch.randn(2, 4).to(dtype),
        "steps": torch.tensor([3, 2**40]),
    }


def loaded(folder: Path, dtype: torch.dtype = torch.float32) -> Toy:
    with torch.device("meta"):
        toy = Toy()
    load_weights(toy, folder, CPU, dtype)
    return toy


def save_single(tensors: Mapping[str, Tensor], folder: Path) -> Path:
    save_file(dict(tensors), folder / "model.safetensors")
    return folder


def save_shards(tensors: Mapping[str, Tensor], folder: Path) -> Path:
    """One tensor per shard, and an index."""
    names = {name: f"model-{i:05}-of-{len(tensors):05}.safetensors" for i, name in enumerate(tensors, start=1)}
    for name, shard in names.items():
        save_file({name: tensors[name]}, folder / shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return folder


def problems_of(folder: Path) -> str:
    with pytest.raises(InvalidInput) as caught:
        loaded(folder)
    return str(caught.value)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16, torch.float64])
def test_any_float_file_loads_into_any_float_type(tmp_path: Path, stored: torch.dtype, wanted: torch.dtype) -> None:
    """Values are those of the file, rounded once. Integers stay integers: 2**40 survives no bfloat16."""
    tensors = toy_tensors(stored)
    toy = loaded(save_single(tensors, tmp_path), wanted)
    for name, tensor in toy.state_dict().items():
        kind = torch.int64 if name == "steps" else wanted
        assert tensor.dtype is kind
        assert torch.equal(tensor, tensors[name].to(kind))


def test_loaded_weights_are_frozen_and_real(tmp_path: Path) -> None:
    toy = loaded(save_single(toy_tensors(), tmp_path))
    assert not any(weight.requires_grad or weight.is_meta for weight in toy.parameters())


def test_shards_load_like_one_file(tmp_path: Path) -> None:
    tensors = toy_tensors()
    folder = save_shards(tensors, tmp_path)
    assert len(weight_files(folder)) == len(tensors)
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in loaded(folder).state_dict().items())


def test_everything_that_does_not_fit_is_in_one_error(tmp_path: Path) -> None:
    """Missing, unexpected, mis-shaped and mistyped. To break it: raise at the first kind, or load with strict=False."""
    tensors = toy_tensors()
    del tensors["first.weight"], tensors["first.bias"]
    tensors |= {"third.weight": torch.zeros(1), "third.bias": torch.zeros(1)}
    tensors |= {"second.weight": torch.zeros(4, 2), "steps": torch.zeros(2)}
    message = problems_of(save_single(tensors, tmp_path))
    assert "2 missing: first.bias, first.weight" in message
    assert "2 unexpected: third.bias, third.weight" in message
    assert "1 mis-shaped: second.weight [4, 2] for [2, 4]" in message
    assert "1 mistyped: steps torch.float32 for torch.int64" in message


def test_quantised_weights_are_refused(tmp_path: Path) -> None:
    """Their integers mean nothing without scales; converting them would load noise."""
    tensors = toy_tensors() | {"second.weight": torch.ones(2, 4, dtype=torch.int8)}
    assert "1 mistyped: second.weight torch.int8 for torch.float32" in problems_of(save_single(tensors, tmp_path))


def test_same_number_of_elements_in_another_shape_does_not_fit(tmp_path: Path) -> None:
    tensors = toy_tensors() | {"first.bias": torch.zeros(4, 1)}
    assert "1 mis-shaped: first.bias [4, 1] for [4]" in problems_of(save_single(tensors, tmp_path))


def test_long_lists_are_counted(tmp_path: Path) -> None:
    extra = {f"extra.{i:03}": torch.zeros(1) for i in range(MAX_LISTED + 5)}
    message = problems_of(save_single(toy_tensors() | extra, tmp_path))
    assert f"{MAX_LISTED + 5} unexpected: extra.000" in message
    assert message.count("extra.") == MAX_LISTED
    assert "and 5 more" in message


def test_a_folder_without_weights_is_an_error(tmp_path: Path) -> None:
    assert "model.safetensors: expected a safetensors file, got no file" in problems_of(tmp_path)


def test_every_missing_shard_is_named(tmp_path: Path) -> None:
    folder = save_shards(toy_tensors(), tmp_path)
    gone = weight_files(folder)[1:3]
    for shard in gone:
        shard.unlink()
    message = problems_of(folder)
    assert all(f"{shard}: expected a safetensors file, got no file" in message for shard in gone)


@pytest.mark.parametrize("index", ["{}", '{"weight_map": null}', '{"weight_map": []}', "not json"])
def test_a_broken_index_is_an_error(tmp_path: Path, index: str) -> None:
    folder = save_shards(toy_tensors(), tmp_path)
    (folder / "model.safetensors.index.json").write_text(index)
    assert "model.safetensors.index.json" in problems_of(folder)


@pytest.mark.parametrize("kept", [0, 4, 40, -1])
def test_a_file_cut_short_is_an_error_that_names_it(tmp_path: Path, kept: int) -> None:
    """A download cut off: nothing, half a header, all but the last byte. To break it: let the library's error out."""
    path = save_single(toy_tensors(), tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    message = problems_of(tmp_path)
    assert f"{path}: expected a whole safetensors file, got {path.stat().st_size} bytes" in message


def test_a_placeholder_instead_of_weights_is_an_error(tmp_path: Path) -> None:
    """What a checkout without large-file support leaves behind."""
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "expected a whole safetensors file" in problems_of(tmp_path)


def test_reading_is_lazy_and_complete(tmp_path: Path) -> None:
    tensors = toy_tensors(torch.bfloat16)
    found = dict(read_tensors(save_single(tensors, tmp_path)))
    assert found.keys() == tensors.keys()
    assert all(found[name].dtype is tensor.dtype for name, tensor in tensors.items())


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    """Which of the two is right nobody can say. Red if the last one read wins."""
    save_file({"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}, tmp_path / "a.safetensors")
    save_file({"bias": torch.ones(2)}, tmp_path / "b.safetensors")
    index = {"weight_map": {"weight": "a.safetensors", "bias": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with torch.device("meta"):
        module = nn.Linear(3, 2)
    with pytest.raises(InvalidInput, match="1 in several shards: bias"):
        load_weights(module, tmp_path, torch.device("cpu"), torch.float32)

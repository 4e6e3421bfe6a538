"""An exported folder is whole and in the published layout, or it does not exist."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from scripts.train_tiny import export as exporting
from scripts.train_tiny.config import Kind
from scripts.train_tiny.export import TOKENIZER_FILES, Parts, Sampling, Tensors, export, random_pieces, read_pieces
from ttsbench.core import InvalidInput, Problem, TextLayout
from ttsbench.models.qwen3_tts.checkpoint import Checkpoint

GOLDEN = Path(__file__).parents[2] / "golden"
LAST_BOOK = "encoder.quantizer.acoustic_residual_vector_quantizer.layers.14.codebook.embed_sum"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    for name in TOKENIZER_FILES[:3]:
        shutil.copyfile(GOLDEN / "toy-base" / name, folder / name)
    (folder / TOKENIZER_FILES[3]).write_text("{}")  # shipped for others, read by nobody here
    return folder


@pytest.fixture(scope="module")
def pieces(text: Path) -> tuple[Tensors, Tensors]:
    return random_pieces(Kind.BASE, text, seed=3)


def parts(text: Path, pieces: tuple[Tensors, Tensors], **changes: object) -> Parts:
    """Parts of tiny-base, whose main tensors and codec tensors `changes` may replace by name (None removes)."""
    main, codec = (dict(group) for group in pieces)
    for name, tensor in changes.items():
        group = codec if name.startswith(("encoder.", "decoder.")) else main
        if tensor is None:
            del group[name]
        else:
            assert isinstance(tensor, torch.Tensor)
            group[name] = tensor
    return Parts(Kind.BASE, text, main, codec, Sampling(temperature=0.5, max_new_tokens=99), {"seed": 3})


def test_exported_folder_loads_with_the_weights_in_half_precision(
    text: Path, pieces: tuple[Tensors, Tensors], tmp_path: Path
) -> None:
    """Break it by swapping two pieces' prefixes, or by writing another layout or precision."""
    out = tmp_path / "tiny-base"
    size = export(parts(text, pieces), out)
    assert size == sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) < 33e6
    assert [path.name for path in tmp_path.iterdir()] == ["tiny-base"]
    for group, folder in zip(pieces, (out, out / "speech_tokenizer"), strict=True):
        stored = load_file(folder / "model.safetensors")
        assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
        assert all(torch.equal(stored[name], tensor.half()) for name, tensor in group.items())
    checkpoint = Checkpoint.load(out, torch.device("cpu"), torch.float32)
    assert checkpoint.defaults.sampling.talker.temperature == 0.5
    assert (checkpoint.defaults.max_frames, checkpoint.defaults.text_layout) == (99, TextLayout.STREAMING)
    assert json.loads((out / "training.json").read_text()) == {"seed": 3}
    card = (out / "README.md").read_text()
    assert card.count("<!-- evaluation -->") == card.count("<!-- /evaluation -->") == 1
    assert "32.1 MB" in card
    assert "temperature 0.5" in card
    assert "$" not in card


def test_tiny_has_named_voices_and_no_speaker_encoder(text: Path, tmp_path: Path) -> None:
    """Break it by exporting the speaker encoder with both kinds."""
    main, codec = random_pieces(Kind.TINY, text, seed=3)
    export(Parts(Kind.TINY, text, main, codec, Sampling()), tmp_path / "tiny")
    checkpoint = Checkpoint.load(tmp_path / "tiny", torch.device("cpu"), torch.float32)
    assert checkpoint.model.speaker_encoder is None
    assert [*checkpoint.config.speakers] == ["heart", "bella", "michael", "fenrir"]


def test_every_fault_is_listed_and_nothing_is_written(
    text: Path, pieces: tuple[Tensors, Tensors], tmp_path: Path
) -> None:
    """Break it by dropping any one of the checks, or by checking after writing."""
    faulty = parts(
        text,
        pieces,
        **{
            "talker.model.norm.weight": None,
            "talker.extra": torch.zeros(1),
            "talker.codec_head.weight": torch.zeros(3, 3),
            "speaker_encoder.fc.bias": torch.full((256,), 1e6),  # no half-precision number
            "decoder.quantizer.rvq_first.vq.layers.0._codebook.embedding_sum": torch.zeros(256, 64),
            LAST_BOOK: torch.randn(256, 64),
        },
    )
    with pytest.raises(InvalidInput) as caught:
        export(faulty, tmp_path / "tiny-base")
    message = str(caught.value)
    for expected in ("missing: talker.model.norm", "unexpected: talker.extra", "mis-shaped: talker.codec_head"):
        assert expected in message
    for expected in ("speaker_encoder.fc.bias", "expected fitted rows, got zeros", LAST_BOOK):
        assert expected in message
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_does_not_load_is_taken_away(
    text: Path, pieces: tuple[Tensors, Tensors], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Break it by renaming before the load, or by leaving the partial folder."""

    def refuse(*_: object) -> None:
        raise InvalidInput(Problem("folder", "one that loads", "another"))

    monkeypatch.setattr(Checkpoint, "load", refuse)
    with pytest.raises(InvalidInput):
        export(parts(text, pieces), tmp_path / "tiny-base")
    assert [*tmp_path.iterdir()] == []


def test_an_existing_folder_is_left_alone(text: Path, pieces: tuple[Tensors, Tensors], tmp_path: Path) -> None:
    """Break it by clearing OUT first."""
    (tmp_path / "note").write_text("mine")
    with pytest.raises(InvalidInput, match="remove it first"):
        export(parts(text, pieces), tmp_path)
    assert (tmp_path / "note").read_text() == "mine"


@pytest.mark.parametrize("prefixed", [True, False])
def test_pieces_are_read_with_and_without_the_published_prefix(
    pieces: tuple[Tensors, Tensors], prefixed: bool, tmp_path: Path
) -> None:
    """The decoder's own names may start with `decoder.` too. Break it by looking at the first name alone."""
    files = {}
    for option, prefix in exporting.PREFIXES.items():
        files[option] = tmp_path / f"{option}.safetensors"
        group = {name: t for name, t in (pieces[0] | pieces[1]).items() if name.startswith(prefix)}
        save_file({n if prefixed else n.removeprefix(prefix): t.contiguous() for n, t in group.items()}, files[option])
    main, codec = read_pieces(files)
    assert (main.keys(), codec.keys()) == (pieces[0].keys(), pieces[1].keys())
    assert all(torch.equal(codec[name], tensor) for name, tensor in pieces[1].items())


@pytest.mark.parametrize("options", [[], ["--random", "0", "--talker", "a"], ["--talker", "a", "--codec", "b"]])
def test_a_kind_needs_exactly_its_pieces(
    options: list[str], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Break it by defaulting a missing piece to a random one."""
    command = ["export", str(tmp_path / "out"), "--kind", "tiny", "--text", str(text), *options]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit, match="--talker --codec --encoder, or of --random alone"):
        exporting.main()
    assert not (tmp_path / "out").exists()

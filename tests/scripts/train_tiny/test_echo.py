"""Speech through the codec's decoder, for the speaker encoder: the right sound, in the right voices."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from scripts.train_tiny import echo_shards, train_speaker
from scripts.train_tiny.config import CODEBOOK_SIZE, HOP, NUM_CODEBOOKS, ROW_WIDTH
from scripts.train_tiny.corpus import SLOTS, Shard, codes_path, echo_path, load_shard, save_tensors, shard_path
from scripts.train_tiny.fast_decoder import build_decoder
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder

CPU = torch.device("cpu")
FRAMES = [3, 9, 1, 6]


@pytest.fixture(scope="module")
def decoder() -> CodecDecoder:
    """Of the size that is trained, its weights and books drawn, in half precision as the file of a checkpoint."""
    torch.manual_seed(0)
    decoder = build_decoder(torch.randn(NUM_CODEBOOKS, CODEBOOK_SIZE, ROW_WIDTH)).half().float()
    decoder.finalize()
    return decoder


@pytest.fixture
def scratch(tmp_path: Path, decoder: CodecDecoder) -> Path:
    """A shard of four utterances of two voices with its codes, and the decoder."""
    torch.manual_seed(1)
    total = sum(FRAMES)
    columns = (field.name for field in fields(Shard) if field.name != "offsets")
    stored = {name: torch.zeros(total, dtype=torch.uint8) for name in columns}
    stored |= {
        "audio": torch.randint(-3000, 3000, (total, HOP), dtype=torch.int16),
        "labels": torch.zeros(total, SLOTS, dtype=torch.uint8),
        "sentence": torch.arange(4, dtype=torch.int32),
        "voice": torch.tensor([7, 2, 2, 7], dtype=torch.int32),
        "frames": torch.tensor(FRAMES, dtype=torch.int32),
    }
    path = shard_path(tmp_path, "reference", 0)
    save_tensors(path, stored)
    codes = torch.randint(CODEBOOK_SIZE, (total, NUM_CODEBOOKS), dtype=torch.uint8)
    save_tensors(codes_path(path), {"codes": codes})
    save_tensors(tmp_path / "decoder.safetensors", {k: x.half() for k, x in decoder.state_dict().items()})
    return tmp_path


def echo(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """What the piece writes beside the one shard."""
    words = ["--scratch", scratch, "--kinds", "reference", "--decoder", scratch / "decoder.safetensors"]
    monkeypatch.setattr("sys.argv", ["echo_shards", *map(str, words)])
    echo_shards.main()
    return load_file(echo_path(shard_path(scratch, "reference", 0)))["audio"]


@pytest.mark.parametrize("batch_frames", [1, 18, 4096], ids=["alone", "in pairs", "all at once"])
def test_an_echo_is_each_utterance_decoded_alone(
    scratch: Path, decoder: CodecDecoder, batch_frames: int, monkeypatch: pytest.MonkeyPatch
):
    """In their order, whatever they shared a batch with. Red when an utterance hears what follows it or lands in the
    place of another, e.g. with `first` of the sorted order, or with `inside` one frame too short.

    Tolerance in units of int16: the batched layers sum float32 in another order, through some thirty layers; 4 units
    are the 1e-4 that the decoder in training is held to.
    """
    monkeypatch.setattr(echo_shards, "BATCH_FRAMES", batch_frames)
    audio = echo(scratch, monkeypatch)
    codes = load_file(codes_path(shard_path(scratch, "reference", 0)))["codes"].long()
    with torch.no_grad():
        alone = [decoder.decode(some[None])[0] for some in torch.split(codes, FRAMES)]
    wanted = torch.cat(alone).view(-1, HOP) * 32768
    assert audio.dtype == torch.int16
    assert wanted.abs().max() > 400
    torch.testing.assert_close(audio.float(), wanted.clamp(max=32767), atol=4, rtol=0)


def test_an_echo_louder_than_int16_is_cut(scratch: Path):
    """Red without the clamp: the loudest sample, 1.0, would become the lowest."""
    one = echo_shards.Echo(scratch / "decoder.safetensors", CPU)
    one.decoder.get_parameter("decoder.6.conv.bias").fill_(9.0)
    assert int(one.speak(torch.zeros(1, 2, NUM_CODEBOOKS, dtype=torch.uint8)).min()) == 32767


def test_an_echo_that_exists_is_left_alone(scratch: Path, monkeypatch: pytest.MonkeyPatch):
    """Red when a piece that is started again makes all of them anew."""
    save_tensors(echo_path(shard_path(scratch, "reference", 0)), {"audio": torch.full((1, 1), 5)})
    assert echo(scratch, monkeypatch).tolist() == [[5]]


def test_an_echo_is_heard_beside_what_was_spoken_and_in_the_same_voice(scratch: Path, monkeypatch: pytest.MonkeyPatch):
    """Red when echoes take the place of speech, lose their voices, or are the speech itself."""
    audio = echo(scratch, monkeypatch)
    path = shard_path(scratch, "reference", 0)
    shard = load_shard(path)
    bank = train_speaker.collect([shard], train_speaker.echoed([path], CPU))
    assert bank.rows[bank.voice].tolist() == [7, 2, 2, 7] * 2
    assert bank.count.tolist() == [4, 4]
    assert torch.equal(bank.audio.view(-1, HOP), torch.cat([shard.audio, audio]))
    assert (bank.length // HOP).tolist() == FRAMES * 2


def test_echoes_are_asked_for_by_kind_and_must_be_there(scratch: Path, monkeypatch: pytest.MonkeyPatch):
    """Red when a missing file is passed over: the encoder would be trained without, and nothing would say so."""
    paths = {"reference": [shard_path(scratch, "reference", 0)], "many": [shard_path(scratch, "many", 0)]}
    with pytest.raises(SystemExit, match=r"no reference-00000\.echo\.safetensors; echo_shards makes them"):
        train_speaker.to_echo(paths, ["reference"])
    echo(scratch, monkeypatch)
    assert train_speaker.to_echo(paths, ["reference"]) == paths["reference"]
    with pytest.raises(SystemExit, match="--echoes named: not among --kinds reference many"):
        train_speaker.to_echo(paths, ["named"])


def test_an_echo_of_another_shard_is_refused(scratch: Path):
    """Red without the check: each utterance would begin inside its neighbour, in another voice."""
    path = shard_path(scratch, "reference", 0)
    save_tensors(echo_path(path), {"audio": torch.zeros(sum(FRAMES) + 1, HOP, dtype=torch.int16)})
    with pytest.raises(ValueError, match=r"reference-00000\.echo"):
        list(train_speaker.echoed([path], CPU))

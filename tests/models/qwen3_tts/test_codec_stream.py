"""Streaming decode equals whole decode, whatever the split, the batch and the slot's history.

Comparisons run at 1e-10 in float64 (sums of a few hundred terms of size 1, added in another order) or at 1e-4 of full
scale in float32, the project's invariant. The last section breaks the code on purpose: the comparison must see it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.models.qwen3_tts.codec_toys import DECODER, PEAK, random_codes, toy_decoder
from ttsbench.models.qwen3_tts import codec_past, codec_stream
from ttsbench.models.qwen3_tts.codec_config import CodecDecoderConfig
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.codec_stream import SlotPast, StreamingCodec

LENGTHS = (1, 2, 71, 72, 73, 129, 300)
"""Around the window of 72 frames, around the ring of 128, and well past both."""

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


@pytest.fixture(scope="module")
def decoder() -> CodecDecoder:
    return toy_decoder()


@pytest.fixture(autouse=True)
def no_autograd() -> Iterator[None]:
    with torch.inference_mode():
        yield


def stream(codec: StreamingCodec, codes: Tensor, slots: Sequence[int], sizes: Sequence[int]) -> Tensor:
    pieces = [codec.step(piece, torch.tensor(slots)) for piece in torch.split(codes, list(sizes), dim=1)]
    return torch.cat(pieces, dim=1)


def random_split(frames: int, seed: int, largest: int = 90) -> list[int]:
    """Sizes of random calls, some longer than one pass of the ring (57 frames)."""
    draw = random.Random(seed)
    sizes: list[int] = []
    while sum(sizes) < frames:
        sizes.append(min(draw.randint(1, largest), frames - sum(sizes)))
    return sizes


def worst(got: Tensor, want: Tensor) -> float:
    assert got.shape == want.shape
    return (got - want).abs().max().item()


def test_the_signal_is_neither_clamped_nor_silent(decoder: CodecDecoder) -> None:
    """A clamped or vanishing signal would hide differences; every test below decodes these codes or codes like them."""
    pcm = decoder.decode(random_codes(DECODER, 3, 300))
    assert pcm.abs().max() < 1
    assert pcm.square().mean().sqrt() > PEAK / 10
    assert pcm.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("frames", LENGTHS)
def test_frame_by_frame_equals_whole(frames: int, dtype: torch.dtype) -> None:
    """Goes red when any tail, any key or the position is off by one frame; see the sabotage tests."""
    decoder = toy_decoder(dtype=dtype)
    codes = random_codes(DECODER, 1, frames)
    got = stream(StreamingCodec(decoder, num_slots=1), codes, [0], [1] * frames)
    assert got.dtype == dtype
    assert worst(got, decoder.decode(codes)) <= TOLERANCE[dtype]


@pytest.mark.parametrize("frames", LENGTHS)
@pytest.mark.parametrize("seed", [0, 1])
def test_any_split_equals_whole(decoder: CodecDecoder, frames: int, seed: int) -> None:
    """Goes red when `step` does not split at ring - window + 1: without the split the assertion in SlotPast fires."""
    codes = random_codes(DECODER, 2, frames, seed)
    got = stream(StreamingCodec(decoder, num_slots=3), codes, [2, 0], random_split(frames, seed))
    assert worst(got, decoder.decode(codes)) <= TOLERANCE[torch.float64]


@pytest.mark.parametrize("ring", [72, 73, 100])
def test_any_ring_that_holds_the_window_is_exact(decoder: CodecDecoder, ring: int) -> None:
    """The smallest ring takes one frame a pass. Goes red with max_frames one larger: the oldest key is overwritten."""
    codes = random_codes(DECODER, 1, 160)
    codec = StreamingCodec(decoder, num_slots=1, ring=ring)
    assert codec.max_frames == ring - 71
    assert worst(stream(codec, codes, [0], [40, 120]), decoder.decode(codes)) <= TOLERANCE[torch.float64]


def test_streams_at_different_positions_share_a_batch(decoder: CodecDecoder) -> None:
    """Three streams join late and leave early; each must sound as if it were alone. Goes red when a row reads another
    row's slot, or when one position serves the batch."""
    codes = random_codes(DECODER, 3, 140)
    starts, ends = (0, 17, 60), (140, 110, 140)
    codec = StreamingCodec(decoder, num_slots=5)
    slots = (3, 0, 4)
    got: list[list[Tensor]] = [[], [], []]
    for t in range(140):
        rows = [r for r in range(3) if starts[r] <= t < ends[r]]
        random.Random(t).shuffle(rows)
        batch = torch.stack([codes[r, t - starts[r]] for r in rows]).unsqueeze(1)
        for row, pcm in zip(rows, codec.step(batch, torch.tensor([slots[r] for r in rows])), strict=True):
            got[row].append(pcm)
    for r in range(3):
        whole = decoder.decode(codes[r : r + 1, : ends[r] - starts[r]])[0]
        assert worst(torch.cat(got[r]), whole) <= TOLERANCE[torch.float64]


def test_a_reset_slot_restarts_like_new_and_alone(decoder: CodecDecoder) -> None:
    """After another stream, and even after one that left NaN behind. Its neighbour goes on undisturbed."""
    codes = random_codes(DECODER, 3, 150)
    codec = StreamingCodec(decoder, num_slots=2)
    stream(codec, codes[:2, :100], [0, 1], [50, 50])
    for tensor in codec.state[1:]:
        tensor[0].fill_(torch.nan)
    codec.reset([0])
    fresh = StreamingCodec(decoder, num_slots=2)
    split = [1] * 20 + [40, 1, 39, 50]
    assert torch.equal(stream(codec, codes[2:], [0], split), stream(fresh, codes[2:], [0], split))
    rest = stream(codec, codes[1:2, 100:], [1], [50])
    assert worst(rest, decoder.decode(codes[1:2])[:, 100 * DECODER.hop :]) <= TOLERANCE[torch.float64]


@pytest.mark.parametrize("frames", [0, 1, 100])
def test_a_saved_stream_goes_on_in_any_slot(decoder: CodecDecoder, frames: int) -> None:
    """To the bit, though the slot it left decodes another stream meanwhile and the one it comes to holds NaN. For the
    red see `test_a_restore_that_does_nothing_is_noticed`; also if `save` keeps views.
    """
    codes = random_codes(DECODER, 2, 130)
    stay, move = StreamingCodec(decoder, num_slots=2), StreamingCodec(decoder, num_slots=2)
    for codec in (stay, move):
        stream(codec, codes[:1, :frames], [0], [frames])
    saved = move.save(0)
    move.reset([0])
    stream(move, codes[1:], [0], [130])
    poison(move, 1)
    move.restore(1, saved)
    rest = codes[:1, frames:]
    assert torch.equal(stream(move, rest, [1], [1] * rest.shape[1]), stream(stay, rest, [0], [1] * rest.shape[1]))
    assert all(torch.equal(ours[1], theirs[0]) for ours, theirs in zip(move.state, stay.state, strict=True))


def poison(codec: StreamingCodec, slot: int) -> None:
    """What a slot could hold at the worst."""
    codec.position[slot] = 7
    for tensor in codec.state[1:]:
        tensor[slot] = float("nan")


def test_unwritten_ring_rows_are_masked_by_position(decoder: CodecDecoder) -> None:
    """Large keys and values in rows that no frame has written change nothing. Goes red without `k >= 0`."""
    codes = random_codes(DECODER, 1, 90)
    codec = StreamingCodec(decoder, num_slots=1)
    for ring in (*codec.keys, *codec.values):
        ring.normal_(0, 100)
    assert worst(stream(codec, codes, [0], [1] * 90), decoder.decode(codes)) <= TOLERANCE[torch.float64]


def test_released_rates_stream_exactly() -> None:
    """Four blocks, 1,920 samples per frame: convolutions on both sides of the short-row product."""
    config = replace(DECODER, decoder_dim=64, upsample_rates=(8, 5, 4, 3))
    decoder = toy_decoder(config)
    codes = random_codes(config, 1, 12)
    got = stream(StreamingCodec(decoder, num_slots=1), codes, [0], [1, 1, 4, 1, 5])
    assert got.shape == (1, 12 * 1920)
    assert worst(got, decoder.decode(codes)) <= TOLERANCE[torch.float64]


def test_grouped_heads_stream_exactly() -> None:
    config = replace(DECODER, num_kv_heads=2)
    decoder = toy_decoder(config)
    codes = random_codes(config, 2, 150)
    got = stream(StreamingCodec(decoder, num_slots=2), codes, [0, 1], [50] * 3)
    assert worst(got, decoder.decode(codes)) <= TOLERANCE[torch.float64]


def test_no_frames_give_no_samples_and_no_state_change(decoder: CodecDecoder) -> None:
    codec = StreamingCodec(decoder, num_slots=1)
    assert codec.step(random_codes(DECODER, 1, 0), torch.tensor([0])).shape == (1, 0)
    assert codec.position.tolist() == [0]


def test_misuse_is_an_error_that_names_it(decoder: CodecDecoder) -> None:
    with pytest.raises(ValueError, match="ring must hold the window of 72 frames, got 71"):
        StreamingCodec(decoder, num_slots=1, ring=71)
    with pytest.raises(ValueError, match="num_slots"):
        StreamingCodec(decoder, num_slots=0)
    codec = StreamingCodec(decoder, num_slots=2)
    with pytest.raises(ValueError, match="two rows of one step"):
        codec.step(random_codes(DECODER, 2, 1), torch.tensor([1, 1]))
    with pytest.raises(ValueError, match="one slot per row"):
        codec.step(random_codes(DECODER, 2, 1), torch.tensor([1]))


def test_state_size_is_the_fact_sheets() -> None:
    """Released geometry: 135,232 tail elements, and 1,179,648 key and value elements in a ring of the bare window."""
    with torch.device("meta"):
        codec = StreamingCodec(CodecDecoder(CodecDecoderConfig.released()), num_slots=2, ring=72)
    assert sum(tail[0].numel() for tail in codec.tails) == 135_232
    assert sum(ring[0].numel() for ring in (*codec.keys, *codec.values)) == 1_179_648
    assert codec.bytes_per_slot == 4 * (135_232 + 1_179_648) + 8


# Sabotage: each of these faults is one a streaming codec has really had. The comparison must see it.


NOTICED = 1e-6
"""Ten thousand times the tolerance: a fault must not be near it."""


def error(decoder: CodecDecoder, codec: StreamingCodec, frames: int = 100) -> float:
    codes = random_codes(DECODER, 1, frames)
    return worst(stream(codec, codes, [0], [1] * frames), decoder.decode(codes))


@pytest.mark.parametrize("site", range(len(toy_decoder().sites)))
def test_a_tail_that_does_not_shift_is_noticed(
    decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch, site: int
) -> None:
    """One tail at a time is overwritten from its start by the new inputs instead of shifted."""
    extend = SlotPast.extend

    def broken(past: SlotPast, at: int, x: Tensor, tail: int) -> Tensor:
        kept = past._stream.tails[at]
        before = kept.clone()
        full = extend(past, at, x, tail)
        if at == site:
            n = min(x.shape[2], tail)
            kept[:] = torch.cat((x[:, :, -n:], before[:, :, n:]), dim=2)
            if n == tail:  # as long as the frame: overwriting would be right, so lose the newest input
                kept[:, :, -1] = 0
        return full

    monkeypatch.setattr(SlotPast, "extend", broken)
    assert error(decoder, StreamingCodec(decoder, num_slots=1), frames=20) > NOTICED


def test_a_ring_of_71_is_noticed(decoder: CodecDecoder) -> None:
    codec = StreamingCodec(decoder, num_slots=1, ring=72)
    codec.ring = 71
    codec.keys, codec.values = ([r[:, :71] for r in rings] for rings in (codec.keys, codec.values))
    assert error(decoder, codec) > NOTICED


def test_a_window_of_71_is_noticed(decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    visibility = codec_past.visibility
    monkeypatch.setattr(codec_stream, "visibility", lambda q, k, window, dtype: visibility(q, k, window - 1, dtype))
    assert error(decoder, StreamingCodec(decoder, num_slots=1)) > NOTICED


def test_a_reset_that_does_nothing_is_noticed(decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = StreamingCodec(decoder, num_slots=1)
    stream(codec, random_codes(DECODER, 1, 20, seed=5), [0], [20])
    monkeypatch.setattr(StreamingCodec, "reset", lambda self, slots: None)
    codec.reset([0])
    assert error(decoder, codec) > NOTICED


@pytest.mark.parametrize("kind", ["position", "tails"])
def test_a_reset_that_forgets_one_kind_of_state_is_noticed(decoder: CodecDecoder, kind: str) -> None:
    codec = StreamingCodec(decoder, num_slots=1)
    stream(codec, random_codes(DECODER, 1, 50, seed=5), [0], [50])
    kept = {"position": [codec.position], "tails": codec.tails}[kind]
    old = [tensor.clone() for tensor in kept]
    codec.reset([0])
    for tensor, before in zip(kept, old, strict=True):
        tensor.copy_(before)
    assert error(decoder, codec) > NOTICED


@pytest.mark.parametrize("forgotten", ["position", "tails", "keys", "values", "everything"])
def test_a_restore_that_does_nothing_is_noticed(decoder: CodecDecoder, forgotten: str) -> None:
    """Or that leaves out one kind of state."""
    codes = random_codes(DECODER, 1, 40)
    codec = StreamingCodec(decoder, num_slots=2)
    stream(codec, codes[:, :20], [0], [20])
    saved = codec.save(0)
    poison(codec, 1)
    if forgotten != "everything":
        codec.restore(1, saved)
        kind = [codec.position] if forgotten == "position" else getattr(codec, forgotten)
        for tensor in kind:
            tensor[1] = 7 if forgotten == "position" else float("nan")
    gap = worst(stream(codec, codes[:, 20:], [1], [20]), decoder.decode(codes)[:, 20 * decoder.hop :])
    assert not gap <= TOLERANCE[torch.float64]

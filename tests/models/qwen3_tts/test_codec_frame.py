"""The one-frame step equals the streaming codec and whole decode, and shares its slots.

On a CPU the kernels' references run, so these tests are of the packing, the folding and the state. Tolerances are those
of `test_codec_stream.py`: 1e-10 in float64, 1e-4 of full scale in float32.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.models.qwen3_tts.codec_toys import DECODER, random_codes, toy_decoder
from ttsbench.kernels.shift_tails import TailPlan, shift_tails
from ttsbench.models.qwen3_tts import codec_frame
from ttsbench.models.qwen3_tts.codec_config import CodecDecoderConfig
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.codec_frame import FrameCodec
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


@pytest.fixture(scope="module")
def decoder() -> CodecDecoder:
    return toy_decoder()


@pytest.fixture(autouse=True)
def no_autograd() -> Iterator[None]:
    with torch.inference_mode():
        yield


def worst(got: Tensor, want: Tensor) -> float:
    assert got.shape == want.shape
    return (got - want).abs().max().item()


def alone(codec: FrameCodec, codes: Tensor, slots: list[int]) -> Tensor:
    """PCM of `codes` [B, F, Q], frame by frame."""
    return torch.cat([codec(frame, torch.tensor(slots)) for frame in codes.unbind(1)], dim=1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_frames_equal_whole_decode(dtype: torch.dtype) -> None:
    """Past the window of 72 and twice around the ring of 128. Goes red with any weight packed or folded wrongly, a tail
    that does not shift, a ring row or a position one off."""
    decoder = toy_decoder(dtype=dtype)
    codes = random_codes(DECODER, 2, 270)
    got = alone(FrameCodec(StreamingCodec(decoder, num_slots=3)), codes, [2, 0])
    assert got.dtype == dtype
    assert worst(got, decoder.decode(codes)) <= TOLERANCE[dtype]


@pytest.mark.parametrize(
    "config",
    [
        replace(DECODER, num_kv_heads=2),
        replace(DECODER, decoder_dim=64, upsample_rates=(8, 5, 4, 3)),
        replace(DECODER, latent_dim=20, hidden_size=12, codebook_dim=10, decoder_dim=36, upsampling_ratios=(2, 3)),
        replace(DECODER, window=5),
    ],
    ids=["grouped heads", "released rates", "odd widths", "short window"],
)
def test_other_geometries_equal_whole_decode(config: CodecDecoderConfig) -> None:
    """Goes red when two widths or two kinds of heads are taken for each other."""
    decoder = toy_decoder(config)
    codes = random_codes(config, 1, 20)
    got = alone(FrameCodec(StreamingCodec(decoder, num_slots=1)), codes, [0])
    assert worst(got, decoder.decode(codes)) <= TOLERANCE[torch.float64]


@pytest.mark.parametrize("seed", [0, 1])
def test_streams_primed_in_one_pass_go_on_frame_by_frame(decoder: CodecDecoder, seed: int) -> None:
    """Rows at mixed positions, some steps by `StreamingCodec` in between. Goes red when the two read one state
    differently."""
    draw = random.Random(seed)
    codes = random_codes(DECODER, 3, 200, seed)
    stream = StreamingCodec(decoder, num_slots=5)
    codec, slots = FrameCodec(stream), (3, 0, 4)
    got: list[list[Tensor]] = [[], [], []]
    at = [0, 0, 0]
    while min(at) < 200:
        rows = [r for r in range(3) if at[r] < 200 and draw.random() < 0.8]
        draw.shuffle(rows)
        n = min([draw.choice((1, 1, 1, 1, 7, 60)), *(200 - at[r] for r in rows)])
        if not rows:
            continue
        index = torch.tensor([slots[r] for r in rows])
        piece = torch.stack([codes[r, at[r] : at[r] + n] for r in rows])
        pcm = codec(piece[:, 0], index) if n == 1 else stream.step(piece, index)
        for row, samples in zip(rows, pcm, strict=True):
            got[row].append(samples)
            at[row] += n
    assert stream.position.tolist() == [200, 0, 0, 200, 200]
    assert worst(torch.stack([torch.cat(pieces) for pieces in got]), decoder.decode(codes)) <= TOLERANCE[torch.float64]


def test_padding_rows_share_a_slot_and_reach_no_other(decoder: CodecDecoder) -> None:
    """Slot 0 takes three rows of every call. Goes red when a row reads or writes the state of another's slot."""
    codes = random_codes(DECODER, 1, 140)
    stream = StreamingCodec(decoder, num_slots=3)
    codec = FrameCodec(stream, max_rows=4)
    noise = random_codes(DECODER, 3, 140, seed=9)
    got = []
    for t in range(140):
        rows = torch.cat((noise[:1, t], codes[:, t], noise[1:, t]))
        got.append(codec(rows, torch.tensor([0, 2, 0, 0]))[1:2])
    assert worst(torch.cat(got, dim=1), decoder.decode(codes)) <= TOLERANCE[torch.float64]
    assert all(not tensor[1].any() for tensor in stream.state), "the idle slot has changed"
    assert all(tensor.isfinite().all() for tensor in stream.state)


def test_a_reset_slot_restarts_like_new(decoder: CodecDecoder) -> None:
    """Byte for byte. Goes red when the step keeps anything of a stream outside `StreamingCodec.state`."""
    codes = random_codes(DECODER, 2, 100)
    stream = StreamingCodec(decoder, num_slots=2)
    codec = FrameCodec(stream)
    alone(codec, codes[:1], [1])
    stream.reset([1])
    fresh = FrameCodec(StreamingCodec(decoder, num_slots=2))
    assert torch.equal(alone(codec, codes[1:], [1]), alone(fresh, codes[1:], [1]))


def test_a_batch_smaller_than_the_last_reads_none_of_its_inputs(decoder: CodecDecoder) -> None:
    codes = random_codes(DECODER, 3, 10)
    stream = StreamingCodec(decoder, num_slots=4)
    codec = FrameCodec(stream)
    alone(codec, codes, [0, 1, 2])
    assert worst(alone(codec, codes[:1], [3]), decoder.decode(codes[:1])) <= TOLERANCE[torch.float64]


def test_misuse_is_an_error_that_names_it(decoder: CodecDecoder) -> None:
    codec = FrameCodec(StreamingCodec(decoder, num_slots=2), max_rows=1)
    with pytest.raises(ValueError, match="at most 1 rows"):
        codec(random_codes(DECODER, 2, 1)[:, 0], torch.tensor([0, 1]))


@pytest.mark.parametrize("site", range(len(toy_decoder().sites)))
def test_a_tail_that_loses_its_newest_row_is_noticed(
    decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch, site: int
) -> None:
    """The comparisons above can fail: each tail matters to them."""

    def broken(inputs: Tensor, tails: Tensor, slots: Tensor, plan: TailPlan, position: Tensor) -> None:
        shift_tails(inputs, tails, slots, plan, position)
        plan.tails(tails, site)[slots, -1] = 0

    monkeypatch.setattr(codec_frame, "shift_tails", broken)
    codes = random_codes(DECODER, 1, 20)
    assert worst(alone(FrameCodec(StreamingCodec(decoder, 1)), codes, [0]), decoder.decode(codes)) > 1e-6


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_kernels_equal_whole_decode_on_a_gpu(dtype: torch.dtype) -> None:
    """Against the float64 decode of the same rounded weights. Eight bits through thirty layers of random weights leave
    much to chance (root mean square 0.020, the module's own bfloat16 decode 0.023): the kernels must not leave more.
    """
    config = replace(DECODER, decoder_dim=64, upsample_rates=(8, 5, 4, 3))
    decoder = toy_decoder(config, dtype=torch.float32).to(dtype)
    codes = random_codes(config, 3, 150)
    whole = toy_decoder(config, dtype=torch.float32).to(dtype).double()
    whole.finalize()
    want, plain = whole.decode(codes), decoder.decode(codes)
    stream = StreamingCodec(decoder.to("cuda"), num_slots=4)
    codec, slots = FrameCodec(stream), torch.tensor([2, 0, 3], device="cuda")
    got = torch.cat([codec(frame, slots) for frame in codes.to("cuda").unbind(1)], dim=1).cpu()
    if dtype == torch.float32:
        assert worst(got.double(), want) <= 1e-4
    else:
        assert (got.double() - want).square().mean() <= 1.1 * (plain.double() - want).square().mean()


@pytest.mark.gpu
def test_a_captured_step_equals_the_eager_one() -> None:
    """Byte for byte, for several frames. Goes red when a step waits, or keeps an address that a replay moves."""
    decoder = toy_decoder(dtype=torch.float32).to(torch.bfloat16).to("cuda")
    codes, slots = random_codes(DECODER, 2, 30).to("cuda"), torch.tensor([1, 0], device="cuda")
    eager = FrameCodec(StreamingCodec(decoder, num_slots=2))
    want = torch.cat([eager(frame, slots) for frame in codes.unbind(1)], dim=1)
    stream = StreamingCodec(decoder, num_slots=2)
    codec, given = FrameCodec(stream), codes[:, 0].clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # where it is captured, as kernels keep counters for each stream
        codec(given, slots)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        out = codec(given, slots)
    stream.reset([0, 1])
    got = []
    for frame in codes.unbind(1):
        given.copy_(frame)
        graph.replay()
        got.append(out.clone())
    assert torch.equal(torch.cat(got, dim=1), want)

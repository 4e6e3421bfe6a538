"""A primed stream goes on as one that has decoded every context frame: state, and all that it says later.

At 1e-10 in float64 and 1e-4 of full scale in float32, as streaming against whole. The last section breaks the code on
purpose.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tests.models.qwen3_tts.codec_toys import DECODER, random_codes, toy_decoder
from ttsbench.models.qwen3_tts import codec_priming
from ttsbench.models.qwen3_tts.codec_config import CodecDecoderConfig
from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.codec_priming import FreshPast, conv_frames, prime
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec

LENGTHS = (1, 16, 17, 18, 25, 57, 58, 72, 128, 129, 200)
"""Around what the toy's convolutions look back (17), one pass of the ring (57), the window and the ring itself."""

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
NOTICED = 1e-6
AFTER = 30
"""Frames spoken after the context: more than the longest tail lasts."""


@pytest.fixture(scope="module")
def decoder() -> CodecDecoder:
    return toy_decoder()


@pytest.fixture(autouse=True)
def no_autograd() -> Iterator[None]:
    with torch.inference_mode():
        yield


def worst(decoder: CodecDecoder, frames: int, slots: tuple[int, ...] = (2, 0)) -> float:
    """Largest difference of later PCM between streams primed with, and streams that decoded, the same `frames`."""
    where = torch.tensor(slots)
    codes = random_codes(DECODER, len(slots), frames + AFTER)
    primed, decoded = StreamingCodec(decoder, num_slots=4), StreamingCodec(decoder, num_slots=4)
    prime(primed, codes[:, :frames], where)
    decoded.step(codes[:, :frames], where)
    assert torch.equal(primed.position, decoded.position)
    rest = torch.split(codes[:, frames:], 1, dim=1)
    got, want = (torch.cat([codec.step(frame, where) for frame in rest], dim=1) for codec in (primed, decoded))
    return (got - want).abs().max().item()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("frames", LENGTHS)
def test_what_follows_is_as_after_decoding_every_frame(frames: int, dtype: torch.dtype) -> None:
    """Goes red when a ring row lands elsewhere, a tail is short, or the position is not the number of frames."""
    assert worst(toy_decoder(dtype=dtype), frames) <= TOLERANCE[dtype]


@pytest.mark.parametrize("frames", [25, 129])
def test_the_state_itself_is_that_of_decoding(decoder: CodecDecoder, frames: int) -> None:
    """All of it, and of the primed slots alone."""
    codes, slots = random_codes(DECODER, 2, frames), torch.tensor([2, 0])
    primed, decoded = StreamingCodec(decoder, num_slots=4), StreamingCodec(decoder, num_slots=4)
    for codec in (primed, decoded):
        for tensor in codec.state:
            tensor[1], tensor[3] = 7, 8
    prime(primed, codes, slots)
    decoded.step(codes, slots)
    for got, want in zip(primed.state, decoded.state, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-9)
        assert (got[1] == 7).all()
        assert (got[3] == 8).all()


def test_the_convolutions_hear_the_last_frames_alone(decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes red when all context frames go through the whole stack again."""
    heard: list[int] = []
    synthesise = CodecDecoder.synthesise

    def counted(self: CodecDecoder, x: Tensor, past: FreshPast) -> Tensor:
        heard.append(x.shape[2])
        return synthesise(self, x, past)

    monkeypatch.setattr(CodecDecoder, "synthesise", counted)
    for frames in (5, 72):
        prime(StreamingCodec(decoder, num_slots=1), random_codes(DECODER, 1, frames), torch.tensor([0]))
    assert heard == [5, 17]


def test_the_released_convolutions_look_back_ten_frames() -> None:
    with torch.device("meta"):
        assert conv_frames(CodecDecoder(CodecDecoderConfig.released())) == 10


# Sabotage.


def test_one_frame_less_through_the_convolutions_is_noticed(
    decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the number is not merely enough."""
    monkeypatch.setattr(codec_priming, "conv_frames", lambda decoder: conv_frames(decoder) - 1)
    assert worst(decoder, 72) > NOTICED


def test_a_transformer_that_hears_the_last_window_alone_is_noticed(decoder: CodecDecoder) -> None:
    """Keys of the second layer follow from frames before the window: cutting the reference there is another voice."""
    codes, slot = random_codes(DECODER, 1, 150 + AFTER), torch.tensor([0])
    cut, decoded = StreamingCodec(decoder, num_slots=1), StreamingCodec(decoder, num_slots=1)
    prime(cut, codes[:, 150 - DECODER.window : 150], slot)
    decoded.step(codes[:, :150], slot)
    rest = codes[:, 150:]
    assert (cut.step(rest, slot) - decoded.step(rest, slot)).abs().max() > NOTICED


def test_keys_one_row_off_are_noticed(decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    made = FreshPast.__init__

    def shifted(self: FreshPast, stream: StreamingCodec, slots: Tensor, n: int) -> None:
        made(self, stream, slots, n)
        self._rows = (self._rows[0], (self._rows[1] + 1) % stream.ring)

    monkeypatch.setattr(FreshPast, "__init__", shifted)
    assert worst(decoder, 72) > NOTICED

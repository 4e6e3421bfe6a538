"""Reference frames that a new stream has heard, without the PCM that nobody hears: only what its next frame needs.

    all frames           dequantise -> conv -> transformer                their ends, keys and values stay
    the last few frames  upsample -> conv -> blocks                       the ends of their inputs stay

Keys and values of the last window follow from all frames, through one window a layer, so the transformer hears them
all: in one pass, as a fresh stream has no past to read. The convolutions behind it look back a bounded way: with the
released shapes what they keep follows from ten frames (`conv_frames`), and they cost six times as much per frame.

Equal to `StreamingCodec.step` with the same frames, up to the order of sums: a pass of other sizes may round otherwise.

Shapes: S slots, B rows, n frames, Q codebooks, C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder, positions_per_frame
from ttsbench.models.qwen3_tts.codec_past import attention, visibility
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec


def prime(stream: StreamingCodec, codes: Tensor, slots: Tensor) -> None:
    """Make the streams in `slots` [B] int64, which must be new, ones that have heard `codes` [B, n, Q] int64, n >= 1.

    No call waits for the device. Slots may repeat only where nothing is to be kept.
    """
    decoder, past = stream.decoder, FreshPast(stream, slots, codes.shape[1])
    x = decoder.latents(codes, past)
    decoder.synthesise(x[:, :, -conv_frames(decoder) :], past)
    stream.position.index_fill_(0, slots, codes.shape[1])


def conv_frames(decoder: CodecDecoder) -> int:
    """Last frames of the transformer's output from which the tails of all convolutions behind it follow.

    Back to front: a convolution keeps its last `tail` inputs, and makes the last m outputs of m + tail inputs.
    """
    sites = [tail for _, tail in decoder.sites]
    needed, behind = 0, 1
    for tail, positions in reversed(list(zip(sites, positions_per_frame(decoder.config), strict=True))[1:]):
        needed = -(-needed * positions // behind) + tail
        behind = positions
    return -(-needed // behind)


class FreshPast:
    """The past of streams that have none, during one pass of all their `n` frames; what the next pass needs stays."""

    def __init__(self, stream: StreamingCodec, slots: Tensor, n: int) -> None:
        self.positions = torch.arange(n, device=slots.device).unsqueeze(0)
        self._stream = stream
        self._slots = slots
        self._mask = visibility(self.positions, self.positions, stream.decoder.config.window, stream.decoder.dtype)
        self._rows = (slots.unsqueeze(1), self.positions[:, -stream.ring :] % stream.ring)

    def extend(self, site: int, x: Tensor, tail: int) -> Tensor:
        full = F.pad(x, (tail, 0))
        self._stream.tails[site].index_copy_(0, self._slots, full[:, :, -tail:])
        return full

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        stream = self._stream
        stream.keys[layer].index_put_(self._rows, k[:, -stream.ring :])
        stream.values[layer].index_put_(self._rows, v[:, -stream.ring :])
        return attention(q, k, v, self._mask)

"""Streaming decode: any split of an utterance gives the PCM of its whole decode.

Each slot owns the past of one stream: for every causal convolution its last inputs (the *tail*), for every attention
layer a ring of rotated keys and values, and the number of frames seen. All of it is in static tensors whose first
dimension is the slot; a step gathers the rows of its slots and writes them back, so a batch may mix streams at any
positions.

Ring row r holds the latest frame p with p % ring == r. Which frame that is follows from the position alone, and a row
of a frame before 0 has not been written: masks look at positions, never at values. A step of n frames writes its rows
before it reads, so the oldest key its first query needs must survive: n <= ring - window + 1. Longer calls are split.

Shapes: S slots, B rows of a step, n frames of a step, Q codebooks, C channels, K key-value heads, E head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.models.qwen3_tts.codec_decoder import CodecDecoder
from ttsbench.models.qwen3_tts.codec_past import attention, visibility


@dataclass(frozen=True)
class StreamState:
    """The past of one stream, away from any slot."""

    position: Tensor
    """int64, no dimensions: frames seen."""
    past: Tensor
    """Its tails and rings, one after another, in memory of their own."""


class StreamingCodec:
    """Decodes frames of up to `num_slots` streams as they come. State lives on the decoder's device in its dtype."""

    def __init__(self, decoder: CodecDecoder, num_slots: int, ring: int | None = None) -> None:
        """`ring` rows per attention layer, at least the window; by default the next power of two above (72: 128)."""
        config = decoder.config
        ring = 1 << config.window.bit_length() if ring is None else ring
        if num_slots < 1:
            raise ValueError(f"num_slots must be >= 1, got {num_slots}")
        if ring < config.window:
            raise ValueError(f"ring must hold the window of {config.window} frames, got {ring}")
        self.decoder = decoder
        self.num_slots = num_slots
        self.ring = ring
        self.max_frames = ring - config.window + 1
        """Frames one pass through the network may take."""
        ring_shape = (ring, config.num_kv_heads, config.head_dim)
        self.position = torch.zeros(num_slots, dtype=torch.int64, device=decoder.device)
        sizes = [num_slots * channels * tail for channels, tail in decoder.sites]
        self.tail_storage = torch.zeros(sum(sizes), dtype=decoder.dtype, device=decoder.device)
        """All tails one after another, each [S, tail, C]: channels last, as `codec_frame.py` reads them."""
        parts = zip(torch.split(self.tail_storage, sizes), decoder.sites, strict=True)
        self.tails = [part.view(num_slots, tail, channels).transpose(1, 2) for part, (channels, tail) in parts]
        self.keys = [self._zeros(*ring_shape) for _ in range(config.num_layers)]
        self.values = [self._zeros(*ring_shape) for _ in range(config.num_layers)]
        self._pasts: dict[int, list[Tensor]] = {}

    @property
    def state(self) -> tuple[Tensor, ...]:
        """Every state tensor, slot first."""
        return (self.position, *self.tails, *self.keys, *self.values)

    @property
    def bytes_per_slot(self) -> int:
        return sum(tensor[0].nbytes for tensor in self.state)

    def reset(self, slots: Sequence[int]) -> None:
        """Make `slots` new. Rings are cleared too: a masked key counts for nothing, but 0 times an old NaN is NaN.

        The host knows the slots, so no index travels to the device.
        """
        for slot in slots:
            self.position[slot].zero_()
            torch._foreach_zero_(self._past(slot))

    def save(self, slot: int) -> StreamState:
        """A copy of all that `slot` knows of its stream."""
        return StreamState(self.position[slot].clone(), torch.cat([part.flatten() for part in self._past(slot)]))

    def restore(self, slot: int, state: StreamState) -> None:
        """Let the stream go on in `slot`, whatever that held before."""
        past = self._past(slot)
        saved = torch.split(state.past, [part.numel() for part in past])
        self.position[slot].copy_(state.position)
        torch._foreach_copy_(past, [piece.view_as(part) for piece, part in zip(saved, past, strict=True)])

    def step(self, codes: Tensor, slots: Tensor) -> Tensor:
        """PCM [B, n * hop] of the next n frames `codes` [B, n, Q] int64 of the streams in `slots` [B] int64, each once.

        Float32, or float64 from a float64 decoder. Rows may stand at different positions; each advances by n.
        """
        self._check(codes, slots)
        frames = codes.shape[1]
        if not frames:
            return self.decoder.decode(codes)
        pieces = [self._pass(piece, slots) for piece in torch.split(codes, self.max_frames, dim=1)]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)

    def _past(self, slot: int) -> list[Tensor]:
        """All tails and rings of one slot: of one dtype and contiguous, so that one launch clears or copies them.

        Kept, as it takes the host longer to find so many pieces than to clear them.
        """
        if slot not in self._pasts:
            tails = [tail[slot].T for tail in self.tails]  # kept transposed
            self._pasts[slot] = [*tails, *(ring[slot] for ring in (*self.keys, *self.values))]
        return self._pasts[slot]

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(self.num_slots, *shape, dtype=self.decoder.dtype, device=self.decoder.device)

    def _pass(self, codes: Tensor, slots: Tensor) -> Tensor:
        pcm = self.decoder(codes, SlotPast(self, slots, codes.shape[1]))
        self.position.index_add_(0, slots, torch.full_like(slots, codes.shape[1]))
        return pcm

    def _check(self, codes: Tensor, slots: Tensor) -> None:
        if slots.dim() != 1 or codes.shape[:1] != slots.shape:
            raise ValueError(f"need one slot per row, got codes {list(codes.shape)} and slots {list(slots.shape)}")
        # On a device these would wait for it; there the scheduler's bookkeeping is what keeps slots apart.
        if slots.device.type == "cpu" and len(set(slots.tolist())) != len(slots):
            raise ValueError(f"a stream cannot take two rows of one step, got slots {slots.tolist()}")


class SlotPast:
    """The past of `slots` during one pass of `n` frames: reads it, and leaves the past of the next pass behind."""

    def __init__(self, stream: StreamingCodec, slots: Tensor, n: int) -> None:
        assert 1 <= n <= stream.max_frames, f"{n} frames in one pass, the ring allows {stream.max_frames}"
        self._stream = stream
        self._slots = slots
        self.positions = stream.position[slots].unsqueeze(1) + torch.arange(n, device=slots.device)
        self._rows = (slots.unsqueeze(1), self.positions % stream.ring)
        last = self.positions[:, -1:]
        held = last - (last - torch.arange(stream.ring, device=slots.device)) % stream.ring
        self._mask = visibility(self.positions, held, stream.decoder.config.window, stream.decoder.dtype)

    def extend(self, site: int, x: Tensor, tail: int) -> Tensor:
        """A tail may be longer than the frame: it shifts, it is not overwritten."""
        kept = self._stream.tails[site]
        full = torch.cat((kept[self._slots], x), dim=2)
        kept.index_copy_(0, self._slots, full[:, :, -tail:])
        return full

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self._stream.keys[layer], self._stream.values[layer]
        keys.index_put_(self._rows, k)
        values.index_put_(self._rows, v)
        return attention(q, keys[self._slots], values[self._slots], self._mask)

"""Codecs of cloned voices hear the end of their reference before the first frame; those that start together, at once.

A pass has one length for all its rows, so requests are grouped by how many context frames they really have. On a GPU
groups of the one length that the profile asks for are captured graphs, by bucket of rows; shorter clips run eagerly, on
the codec's stream like the graphs. At `batch_invariant` every codec is primed alone, with whole passes of the streaming
decode: byte for byte what decoding those frames would have left.

Shapes: B rows, n frames, Q codebooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.engine.buckets import bucket, codec_buckets
from ttsbench.engine.graphs import Graphs
from ttsbench.models.device import ids_on
from ttsbench.models.qwen3_tts.codec_priming import prime
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec

GROUP = 8
"""Most rows of a pass: 80 frames of the convolutions, about what one whole pass of the ring (57) takes in memory."""
PART = "prime"
"""Its graphs' name among those of the codec's stream."""


@dataclass(frozen=True)
class Started:
    """A slot whose codec has not heard its reference yet: `codes` [n, Q] int64, n >= 1."""

    slot: int
    codes: Tensor


def groups(started: list[Started]) -> Iterator[list[Started]]:
    """All of `started`, those of one length together, at most GROUP of them."""
    by_length: dict[int, list[Started]] = {}
    for one in started:
        by_length.setdefault(len(one.codes), []).append(one)
    for same in by_length.values():
        yield from (same[at : at + GROUP] for at in range(0, len(same), GROUP))


class Primer:
    """Primes the slots of one codec. Callers have its stream current, and have reset the slots."""

    def __init__(self, codec: StreamingCodec, alone: bool, captured_frames: int | None) -> None:
        """`alone`: one request at a time, exactly. `captured_frames`: the length that has graphs; None captures none.

        The last slot of `codec` is for rows that pad a graph.
        """
        self.counts = {"requests": 0, "groups": 0}
        self._codec = codec
        self._alone = alone
        self._frames = None if alone else captured_frames
        self.waiting: list[Started] = []
        self.buckets = () if self._frames is None else codec_buckets(min(GROUP, codec.num_slots - 1))
        """Rows of the groups that `run` expects to find captured."""
        if self._frames is not None:
            device, books = codec.decoder.device, codec.decoder.config.num_codebooks
            self._codes = torch.zeros((GROUP, self._frames, books), dtype=torch.int64, device=device)
            self._slots = torch.full((GROUP,), codec.num_slots - 1, dtype=torch.int64, device=device)

    def part(self, rows: int) -> None:
        """What the graph of `rows` rows holds."""
        prime(self._codec, self._codes[:rows], self._slots[:rows])

    def add(self, slot: int, codes: Tensor) -> None:
        """Let the stream in `slot` hear `codes` [n, Q] at the next `run`. Raises ValueError for impossible codes."""
        self._codec.decoder.quantizer.check(codes[None])
        if len(codes):
            self.waiting.append(Started(slot, codes))

    def run(self, graphs: Graphs | None) -> None:
        """Prime all that were added; `graphs` has those of `buckets`."""
        started, self.waiting = self.waiting, []
        for group in [[one] for one in started] if self._alone else groups(started):
            self._prime(group, graphs)
            self.counts["groups"] += 1
            self.counts["requests"] += len(group)

    def _prime(self, group: list[Started], graphs: Graphs | None) -> None:
        codes = torch.stack([one.codes for one in group])
        if codes.is_cuda:
            for one in group:
                one.codes.record_stream(torch.cuda.current_stream())  # it may be dropped before it has been read
        slots = [one.slot for one in group]
        if self._alone:
            self._codec.step(codes, ids_on(codes.device, slots))
        elif graphs is None or codes.shape[1] != self._frames:
            prime(self._codec, codes, ids_on(codes.device, slots))
        else:
            rows = bucket(self.buckets, len(group))
            padding = [self._codec.num_slots - 1] * (rows - len(group))
            self._codes[: len(group)].copy_(codes)
            self._slots[:rows].copy_(ids_on(codes.device, slots + padding))
            graphs.replay((PART, rows))

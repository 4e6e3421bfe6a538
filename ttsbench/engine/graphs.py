"""Captured steps: one CUDA graph per part and bucket, all of one stream in one memory pool.

A graph replays the kernels of its capture at the addresses of its capture, without Python between them. Only one graph
of a stream runs at a time, so all of them share their working memory; largest first, the others fit into what it took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch

Key = tuple[str, int]
"""Part of the step, and bucket."""


class Graphs:
    """The graphs of one stream."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.stream = stream
        self.replays: Counter[Key] = Counter()
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: dict[Key, torch.cuda.CUDAGraph] = {}

    def capture(self, key: Key, part: Callable[[], None]) -> None:
        """Run `part` once to compile and to allocate what libraries keep, then capture it."""
        with torch.cuda.stream(self.stream):
            part()
        self.stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self.stream):
            part()
        self._graphs[key] = graph

    def replay(self, key: Key) -> None:
        """On the stream that is current."""
        self._graphs[key].replay()
        self.replays[key] += 1

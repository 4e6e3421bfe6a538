"""What the host tells the device: one block of memory, sent whole with every step.

Settings of every slot, block tables and the rows of the step are arrays carved out of one buffer, so a step costs one
copy, and a captured graph finds them at fixed addresses. The host writes its own copy; a send goes through a ring of
pinned buffers, so that it may write on while the device still reads. On a CPU both copies are the same memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

ALIGNMENT = 64
"""Bytes; vector loads want at most 16."""

Layout = Mapping[str, tuple[tuple[int, ...], type[np.generic]]]
"""Name -> shape and dtype of an array."""


class Control:
    """`host[name]` are NumPy arrays to write, `device[name]` the tensors that a step reads after `send`."""

    def __init__(self, layout: Layout, device: torch.device, ring: int) -> None:
        """`ring` sends may be under way at once."""
        spans, end = {}, 0
        for name, (shape, dtype) in layout.items():
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            spans[name] = (end, size)
            end += -(-size // ALIGNMENT) * ALIGNMENT
        on_cpu = device.type == "cpu"
        self._mirror = torch.zeros(end, dtype=torch.uint8)
        self._device = self._mirror if on_cpu else torch.zeros(end, dtype=torch.uint8, device=device)
        self._ring = [] if on_cpu else [torch.zeros(end, dtype=torch.uint8).pin_memory() for _ in range(ring)]
        self._sent = 0
        self.host: dict[str, np.ndarray] = {}
        self.device: dict[str, Tensor] = {}
        for name, (shape, dtype) in layout.items():
            start, size = spans[name]
            self.host[name] = self._mirror.numpy()[start : start + size].view(dtype).reshape(shape)
            kind = torch.from_numpy(np.zeros(0, dtype=dtype)).dtype
            self.device[name] = self._device[start : start + size].view(kind).view(shape)

    def send(self) -> None:
        """Queue a copy of the whole block; a no-op on a CPU."""
        if not self._ring:
            return
        staged = self._ring[self._sent % len(self._ring)]
        self._sent += 1
        staged.copy_(self._mirror)
        self._device.copy_(staged, non_blocking=True)

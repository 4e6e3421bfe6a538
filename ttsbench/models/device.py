"""Host values on their way to a device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def ids_on(device: torch.device, ids: Sequence[int]) -> Tensor:
    """`ids` as int64 on `device`."""
    return on_device(torch.tensor(ids, dtype=torch.int64), device)


def on_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A host tensor on `device`. From pinned memory: the host does not wait for what the device has in line."""
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)

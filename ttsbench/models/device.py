"""Small host values on their way to a device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def ids_on(device: torch.device, ids: Sequence[int]) -> Tensor:
    """`ids` as int64 on `device`. From pinned memory: the host does not wait for what the device has in line."""
    here = torch.tensor(ids, dtype=torch.int64)
    return here if device.type == "cpu" else here.pin_memory().to(device, non_blocking=True)

"""The precision that the codec trains in."""

from __future__ import annotations

import torch


def lower_precision(device: torch.device) -> torch.autocast:
    """bfloat16 on a GPU. Without the cache of cast weights, of which a captured step would read a stale one."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False)

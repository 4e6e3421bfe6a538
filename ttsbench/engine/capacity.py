"""How many KV blocks fit: what is left of the device after weights, codec state and the graphs of the largest step.

The graphs are captured once with a cache of no size to see what they take; only then is the cache made.
"""

from __future__ import annotations

import gc
import logging
from dataclasses import dataclass, replace

import torch

from ttsbench.core import InvalidInput, Problem
from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.runner import Runner, RunnerOptions
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.packed import PackedTalker

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Budget:
    """Bytes of the device, by what holds them."""

    total: int
    usable: int
    """The share of it that the engine may take."""
    held: int
    """By weights, codec state and whatever else is there already."""
    graphs: int
    """By captured steps and their working memory."""

    @property
    def left(self) -> int:
        return self.usable - self.held - self.graphs


def plan_blocks(wanted: int, least: int, block_bytes: int, budget: Budget) -> int:
    """KV blocks to allocate: `wanted` if they fit, else as many as do. Raises InvalidInput below `least`."""
    fitting = max(0, budget.left // block_bytes)
    if fitting < least:
        expected = f"room for {least} KV blocks of {block_bytes / 1e6:.1f} MB, one whole request"
        got = f"{budget.left / 1e9:.1f} GB left of {budget.total / 1e9:.1f} GB: {describe(budget)}"
        hint = "lower max_num_seqs or max_model_len, or raise gpu_memory_utilization"
        raise InvalidInput(Problem("GPU memory", expected, got, hint))
    return min(wanted, fitting)


def describe(budget: Budget) -> str:
    """What went where, for people."""
    return (
        f"{budget.held / 1e9:.2f} GB weights and codec state, {budget.graphs / 1e9:.2f} GB graphs and working memory, "
        f"{(budget.total - budget.usable) / 1e9:.2f} GB left alone"
    )


def measure(
    config: Qwen3TTSConfig, packed: PackedTalker, codec: StreamingCodec, options: RunnerOptions, share: float
) -> Budget:
    """Capture the largest step over an empty cache, see what it takes, and throw it away."""
    device = packed.device
    torch.cuda.synchronize(device)
    free, total = torch.cuda.mem_get_info(device)
    held = total - free
    trial = Runner(config, packed, codec, replace(options, num_blocks=1))
    trial.warm_up(trial.row_buckets[-1:], trial.token_buckets[-1:])
    taken = free - torch.cuda.mem_get_info(device)[0]
    del trial
    gc.collect()
    torch.cuda.empty_cache()
    return Budget(total, int(total * share), held, taken)


def block_bytes(config: Qwen3TTSConfig, block_size: int, dtype: torch.dtype) -> int:
    """Of keys, values and input rows of one block."""
    return block_size * PagedCache.bytes_per_position(config.talker, dtype)

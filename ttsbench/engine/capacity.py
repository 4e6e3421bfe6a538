"""How many KV blocks fit: what is left of the device after weights, codec state, the largest step, and what preempted
requests may keep.

That step is captured once (or run, where steps are eager) over a cache of no size to see what it takes; only then is
the cache made. Graphs of the smaller buckets use the same working memory; what each adds for itself is small, and part
of what `gpu_memory_utilization` leaves alone. The log says what is in use when all of them are there.
"""

from __future__ import annotations

import gc
import logging
from dataclasses import dataclass, replace

import torch

from ttsbench.core import InvalidInput, Problem
from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.preemption import most_bytes
from ttsbench.engine.runner import Runner, RunnerOptions
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.packed import PackedTalker

log = logging.getLogger(__name__)

HINT = "lower max_num_seqs, max_model_len or num_kv_blocks, or raise gpu_memory_utilization"


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
    histories: int = 0
    """Not held yet: what preempted requests may keep at most."""

    @property
    def left(self) -> int:
        return self.usable - self.held - self.graphs - self.histories


def plan_blocks(wanted: int, least: int, block_bytes: int, budget: Budget) -> int:
    """KV blocks to allocate: `wanted` if they fit, else as many as do. Raises InvalidInput below `least`."""
    fitting = max(0, budget.left // block_bytes)
    if fitting < least:
        expected = f"room for {least} KV blocks of {block_bytes / 1e6:.1f} MB"
        got = f"{budget.left / 1e9:.1f} GB left of {budget.total / 1e9:.1f} GB: {describe(budget)}"
        raise InvalidInput(Problem("GPU memory", expected, got, HINT))
    return min(wanted, fitting)


def describe(budget: Budget) -> str:
    """What went where, for people."""
    histories = f"{budget.histories / 1e9:.2f} GB set aside for preempted requests, " if budget.histories else ""
    return (
        f"{budget.held / 1e9:.2f} GB weights and codec state, {budget.graphs / 1e9:.2f} GB graphs and working memory, "
        f"{histories}{(budget.total - budget.usable) / 1e9:.2f} GB left alone"
    )


def fitted(
    config: Qwen3TTSConfig,
    packed: PackedTalker,
    codec: StreamingCodec,
    options: RunnerOptions,
    share: float,
    least: int,
) -> RunnerOptions:
    """`options` with as many of their KV blocks as fit into `share` of the device, `least` at least."""
    budget = measure(config, packed, codec, options, share)
    log.info("GPU memory: %s", describe(budget))
    size = block_bytes(config, options.block_size, packed.dtype)
    return replace(options, num_blocks=plan_blocks(options.num_blocks, least, size, budget))


def measure(
    config: Qwen3TTSConfig, packed: PackedTalker, codec: StreamingCodec, options: RunnerOptions, share: float
) -> Budget:
    """Run, or capture, the largest step over an empty cache, see what it takes, and throw it away.

    Raises InvalidInput where not even that fits.
    """
    device = packed.device
    torch.cuda.synchronize(device)
    free, total = torch.cuda.mem_get_info(device)
    try:
        trial = Runner(config, packed, codec, replace(options, num_blocks=1))
        trial.warm_up(trial.buckets.largest)
    except torch.OutOfMemoryError as error:
        got = f"{free / 1e9:.1f} GB free of {total / 1e9:.1f} GB beside weights and codec state"
        raise InvalidInput(Problem("GPU memory", "room for the largest step", got, HINT)) from error
    taken = free - torch.cuda.mem_get_info(device)[0]
    del trial
    gc.collect()
    torch.cuda.empty_cache()
    histories = most_preempted(options) * history_bytes(config, codec, options, packed.dtype)
    return Budget(total, int(total * share), total - free, taken, histories)


def history_bytes(config: Qwen3TTSConfig, codec: StreamingCodec, options: RunnerOptions, dtype: torch.dtype) -> int:
    """What each active request may have to keep when it is preempted; 0 where none is."""
    return most_bytes(config, codec, options.max_model_len, dtype) if options.preempts else 0


def most_preempted(options: RunnerOptions) -> int:
    """Requests that may be preempted at one time: the oldest one never is."""
    return options.max_num_seqs - 1


def describe_runner(runner: Runner) -> str:
    """Slots and blocks of a runner, and on a GPU what is in use once it is warm."""
    options, codec = runner.options, runner.codec
    positions = options.num_blocks * options.block_size
    size = positions * PagedCache.bytes_per_position(runner.config.talker, runner.cache.kv.dtype)
    text = (
        f"{options.max_num_seqs} slots (codec state {options.max_num_seqs * codec.bytes_per_slot / 1e6:.0f} MB), "
        f"{options.num_blocks} KV blocks of {options.block_size} positions ({size / 1e6:.0f} MB)"
    )
    if each := history_bytes(runner.config, codec, options, runner.cache.kv.dtype):
        total = most_preempted(options) * each
        text += f", preempted requests up to {total / 1e6:.0f} MB ({each / 1e6:.1f} MB each: history and codec state)"
    if not runner.on_gpu:
        return text
    free, total = torch.cuda.mem_get_info(runner.device)
    return f"{text}; {(total - free) / 1e9:.2f} of {total / 1e9:.2f} GB in use"


def block_bytes(config: Qwen3TTSConfig, block_size: int, dtype: torch.dtype) -> int:
    """Of keys, values and input rows of one block."""
    return block_size * PagedCache.bytes_per_position(config.talker, dtype)

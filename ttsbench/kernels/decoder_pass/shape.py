"""Which stacks the pass can run, and how it cuts them: the constants that its source is compiled with.

Sizes of shared memory repeat what the source declares: `decoder_pass.cu` has the layout.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ttsbench.kernels import cuda_driver, nvrtc
from ttsbench.kernels.decoder_pass.types import Stack

MAX_ROWS = 16
"""A tensor core's. More in a warp were slower than separate launches, 3.36 against 3.08 ms a frame of 32 rows, and not
the same twice (docs/measurements.md)."""

UNITS = (1024, 512, 256)
"""Terms of a unit of weights, the larger the better: fewer waits for the same bytes."""
HALVES = 1, 2
"""Stretches of eight rows of a launch: a kernel for each."""
WARPS, THREADS = 8, 384
"""Warps that multiply, and threads of a block: four warps more, one of which copies."""
WARP_POSITIONS = 16
"""Up to so many positions, one warp attends for a row and head, else a block does."""
CHUNK = 16
"""Positions that a warp takes at a time, which lie side by side in the cache."""
PARTS_OF_A_TILE = 512
"""Bytes of a warp's partial sums."""
LEAST_TILES = 3
"""Attention of a block meets where the partial sums of so many tiles lie."""
MIN_SLOTS = 2
"""Units that a block must hold to have one on its way while it uses another."""


@dataclass(frozen=True)
class Shape:
    """Of a stack and its head."""

    width: int
    inner: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocabulary: int
    num_layers: int
    max_positions: int

    @classmethod
    def of(cls, stack: Stack, vocabulary: int) -> Shape:
        """The head's outputs are `vocabulary`; positions are those of the rotary tables."""
        layer = stack.layers[0]
        heads = layer.heads
        return cls(
            width=len(stack.norm),
            inner=layer.down.shape[1],
            num_heads=heads.num_heads,
            num_kv_heads=heads.num_kv_heads,
            head_dim=heads.head_dim,
            vocabulary=vocabulary,
            num_layers=len(stack.layers),
            max_positions=len(heads.cos),
        )

    @property
    def packed(self) -> int:
        """Outputs of the product that gives queries, keys and values."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim

    @property
    def attended(self) -> int:
        """Outputs of attention."""
        return self.num_heads * self.head_dim


@dataclass(frozen=True)
class Machine:
    """What a launch may take."""

    blocks: int
    """Multiprocessors; a block stays on each."""
    shared_bytes: int
    """Shared memory of a block, static and dynamic."""

    @classmethod
    def of(cls, device: torch.device, reserved: int = 0) -> Machine:
        """All of a GPU but `reserved` multiprocessors. Raises ValueError when it has no more than those."""
        count, shared = cuda_driver.MULTIPROCESSORS, cuda_driver.SHARED_BYTES_OF_A_BLOCK
        number = torch.cuda.current_device() if device.index is None else device.index
        blocks = cuda_driver.device_attribute(number, count) - reserved
        if reserved < 0 or blocks < 1:
            raise ValueError(f"{reserved} of {blocks + reserved} multiprocessors cannot be left to others")
        return cls(blocks, cuda_driver.device_attribute(number, shared))


@dataclass(frozen=True)
class Tiling:
    """How the rows and the weights of a launch are cut."""

    blocks: int
    """One on each multiprocessor, or on as many as have something to do."""
    halves: int
    """Stretches of eight rows: 1 or 2."""
    unit: int
    slots: int
    """Units that a block holds."""
    shared_bytes: int
    """Dynamic."""

    @property
    def rows(self) -> int:
        """At most."""
        return 8 * self.halves

    @classmethod
    def choose(cls, shape: Shape, rows: int, machine: Machine) -> Tiling:
        """For up to `rows` rows. Raises ValueError, which says why, for what the kernel cannot do."""
        # Every block must read of each product that it empties memory after: see "Hand-over" in the source.
        blocks = min(machine.blocks, shape.packed // 8, shape.inner // 8, shape.vocabulary // 8)
        if not 1 <= rows <= MAX_ROWS:
            raise ValueError(f"a pass takes 1 to {MAX_ROWS} rows, not {rows}")
        halves = next(halves for halves in HALVES if rows <= 8 * halves)
        if shape.head_dim != 128 or shape.num_heads != 2 * shape.num_kv_heads:
            raise ValueError("a pass takes two query heads to each key-value head, of width 128")
        unit = next((unit for unit in UNITS if not any(k % unit for k in _terms(shape))), None)
        if unit is None:
            raise ValueError(f"a pass takes products of multiples of {UNITS[-1]} terms, not of {_terms(shape)}")
        if shape.vocabulary % 8:
            raise ValueError(f"a pass takes multiples of 8 outputs of the head, not {shape.vocabulary}")
        unit_bytes, fixed, static = _shared_memory(shape, halves, unit, blocks)
        if fixed // (WARPS * PARTS_OF_A_TILE) < LEAST_TILES:
            raise ValueError(f"a pass takes products of {LEAST_TILES} or more column tiles on one of {blocks} blocks")
        slots = (machine.shared_bytes - fixed - static) // (unit_bytes + 16)
        if slots < MIN_SLOTS:
            raise ValueError(f"{machine.shared_bytes} bytes of shared memory hold {slots} units, not {MIN_SLOTS}")
        return cls(blocks, halves, unit, slots, slots * unit_bytes + fixed)

    def defines(self, shape: Shape) -> dict[str, int | str]:
        """Names as in the source."""
        return {
            "HIDDEN": shape.width,
            "INNER": shape.inner,
            "NUM_HEADS": shape.num_heads,
            "NUM_KV_HEADS": shape.num_kv_heads,
            "HEAD_DIM": shape.head_dim,
            "VOCABULARY": shape.vocabulary,
            "NUM_LAYERS": shape.num_layers,
            "WARP_ATTENDS": int(shape.max_positions <= WARP_POSITIONS),
            "GRID": self.blocks,
            "ROW_HALVES": self.halves,
            "UNIT_TERMS": self.unit,
            "SLOTS": self.slots,
        }


def _terms(shape: Shape) -> tuple[int, int, int]:
    return shape.width, shape.attended, shape.inner


def _shared_memory(shape: Shape, halves: int, unit: int, blocks: int) -> tuple[int, int, int]:
    """Bytes of a unit; of the dynamic memory besides; of the static memory but for two barriers a unit."""

    def tiles(outputs: int) -> int:
        return -(-outputs // 8 // blocks)

    most = max(tiles(shape.packed), 2 * tiles(shape.inner), tiles(shape.width), tiles(shape.vocabulary))
    queries, scales, kept = 8 * WARPS * shape.head_dim, 32 * halves, 128 * halves * tiles(shape.width)
    return 8 * (2 * unit + 64), WARPS * most * PARTS_OF_A_TILE, queries + scales + kept + 64


def unsupported(
    shape: Shape, rows: int, block_size: int, dtype: torch.dtype, device: torch.device, reserved: int = 0
) -> str | None:
    """Why `device`, but for `reserved` multiprocessors, cannot run passes of up to `rows` rows, or None when it can.

    `block_size` is the cache's, in positions.
    """
    if device.type != "cuda" or torch.version.hip is not None:
        return f"a pass is CUDA's, and this is {device.type if torch.version.hip is None else 'ROCm'}"
    capability = torch.cuda.get_device_capability(device)
    if capability != (9, 0):
        return f"a pass is written for Hopper, compute capability 9.0, not {capability[0]}.{capability[1]}"
    if device.index not in (None, torch.cuda.current_device()):
        return f"a pass runs on torch's current device, which is {torch.cuda.current_device()}, not {device.index}"
    if dtype != torch.bfloat16:
        return f"a pass computes in bfloat16, not {dtype}"
    if block_size % CHUNK:
        return f"a pass takes blocks of multiples of {CHUNK} positions, not of {block_size}"
    try:
        nvrtc.compiler()
        Tiling.choose(shape, rows, Machine.of(device, reserved))
    except (ValueError, RuntimeError) as error:  # RuntimeError: no compiler or no driver is found
        return str(error)
    return None

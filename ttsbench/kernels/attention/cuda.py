"""Launches `paged_attention.cu`: bfloat16, two query heads of width 128 to each key-value head, from Hopper on."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from ttsbench.kernels.attention.reference import Heads, KVRows
from ttsbench.kernels.cuda_source import Compile, compile_for_device, supported

SOURCE = Path(__file__).with_name("paged_attention.cu")
ALONE, PAIRS, STORE, ATTEND = range(4)
"""Modes of the source."""
CHUNK = 16
"""Positions that a warp takes at a time."""
FEW_ROWS = 16
"""Up to so many rows, eight warps share a row and head, above four. The result is the same to the bit.

Measured on an H200 at 64 positions, between kernels that read 16 MiB (docs/measurements.md): 2.6 and 3.7 us at 8 rows,
6.1 and 5.1 at 32.
"""
HEADS_OF_A_BLOCK = 2, 1
"""Where a warp has a head of its own: as many as the number of heads can be divided by.

Measured in the same way with 8 MiB, at 9 of 16 positions, for 4, 2 and 1 heads: 2.9, 1.9 and 1.9 us at 32 rows, 3.4,
3.4 and 3.5 at 128; without a product in front 2.6, 3.1 and 3.0 at 64.
"""
THREADS_OF_A_MULTIPROCESSOR = 512
"""For which there must be room: 128 registers a thread. More would spill, fewer leave less room for others."""


class Step(ctypes.Structure):
    """`struct Step` of the source."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                "qkv", "norm", "cos", "sin", "slots", "positions", "kv_slots", "tables", "keys", "values", "out",
            )
        ),
        ("rows", ctypes.c_int),
        ("table_stride", ctypes.c_int),
        ("eps", ctypes.c_float),
    )  # fmt: skip


def supports(qkv: Tensor, heads: Heads, rows: KVRows) -> bool:
    """Whether there is a kernel for these heads on this device; Triton's is for all others."""
    return (
        qkv.dtype == torch.bfloat16
        and heads.head_dim == 128
        and heads.num_heads == 2 * heads.num_kv_heads
        and rows.block_size % CHUNK == 0
        and supported(qkv.device)
    )


def paged_attention(
    qkv: Tensor,
    heads: Heads,
    rows: KVRows,
    keys: Tensor,
    values: Tensor,
    query_len: int,
    compile_kernel: Compile = compile_for_device,
) -> Tensor:
    """[N, H * E]; one launch up to query length 2, else two. `compile_kernel` is for those who have no GPU."""
    count, groups = len(qkv), heads.num_kv_heads
    _check(qkv, heads, rows, keys, values)
    out = torch.empty(count, heads.num_heads * heads.head_dim, device=qkv.device, dtype=qkv.dtype)
    tensors = qkv, heads.norm, heads.cos, heads.sin, rows.slots, rows.positions, rows.kv_slots, rows.tables
    step = Step(
        *(tensor.data_ptr() for tensor in (*tensors, keys, values, out)), count, rows.tables.stride(0), heads.eps
    )
    longest = rows.tables.shape[1] * rows.block_size
    for mode in (ALONE,) if query_len == 1 else (PAIRS,) if query_len == 2 else (STORE, ATTEND):
        warps, heads_of_a_block = choose(mode, count, longest, groups)
        defines = macros(mode, warps, heads_of_a_block, groups, rows.block_size)
        kernel = compile_kernel(SOURCE, defines, "paged_attention", qkv.device)
        kernel.launch((groups // heads_of_a_block, count), (32 * warps * heads_of_a_block,), (step,), programmatic=True)
    return out


def choose(mode: int, rows: int, longest: int, groups: int) -> tuple[int, int]:
    """(warps of a head, heads of a block) for `rows` packed rows of at most `longest` positions."""
    if mode == STORE or longest <= CHUNK:
        return 1, next(heads for heads in HEADS_OF_A_BLOCK if groups % heads == 0)
    return (8 if rows <= FEW_ROWS else 4), 1


def macros(mode: int, warps: int, heads_of_a_block: int, groups: int, block_size: int) -> dict[str, int | str]:
    """What the source is compiled with."""
    threads = 32 * warps * heads_of_a_block
    return {
        "MODE": mode,
        "WARPS": warps,
        "THREADS": threads,
        "MIN_BLOCKS": THREADS_OF_A_MULTIPROCESSOR // threads,
        "NUM_KV_HEADS": groups,
        "PAGE": block_size,
    }


def _check(qkv: Tensor, heads: Heads, rows: KVRows, keys: Tensor, values: Tensor) -> None:
    width, groups = heads.head_dim, heads.num_kv_heads
    assert qkv.shape[1] == 2 * heads.num_heads * width == 4 * groups * width
    assert keys.shape == values.shape
    assert keys.data_ptr() != values.data_ptr(), "keys and values share their memory"
    assert keys.shape[1:] == (groups, width)
    assert heads.norm.shape == (heads.num_heads + groups, width)
    assert rows.tables.stride(1) == 1
    assert rows.tables.dtype == torch.int32
    assert rows.block_size % CHUNK == 0
    for index in (rows.slots, rows.positions, rows.kv_slots):
        assert index.is_contiguous()
        assert index.dtype == torch.int64
    for tensor in (qkv, heads.norm, heads.cos, heads.sin, keys, values):
        assert tensor.is_contiguous()
        assert tensor.dtype == torch.bfloat16
        assert tensor.data_ptr() % 16 == 0

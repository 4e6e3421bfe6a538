"""Launches `decoder_pass.cu`: one compiled kernel for each class of row counts, and the memory that it hands over in.

A launch finds that memory empty and leaves it so, but for its own last output, which lies in one of two places by
turns and is the next launch's to empty. So launches of one `DecoderPass` follow each other on a stream; and as the
blocks of a launch wait for each other, only one pass may run on a device at a time.

Why a word says itself that it is there, and no counter says it: a count must come after the data, and the fence that
sees to it waits for whatever the block has under way, the copies of weights above all. Measured on an H200: 0.5 to
2.5 us at each of the five hand-overs of a layer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from ttsbench.kernels.attention import KVRows
from ttsbench.kernels.cuda_source import Argument, CudaModule
from ttsbench.kernels.decoder_pass.shape import CHUNK, THREADS, Machine, Shape, Tiling
from ttsbench.kernels.decoder_pass.types import Stack

SOURCE = Path(__file__).with_name("decoder_pass.cu")
EMPTY = -1
"""As an int32: what a word of the memory that blocks hand over in holds until it is written."""


class Kernel(Protocol):
    """A `CudaKernel`, or what stands for one."""

    def launch(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: tuple[Argument, ...],
        *,
        programmatic: bool = False,
    ) -> None: ...


Compile = Callable[[Path, Mapping[str, int | str], str, int], Kernel]
"""The kernel of that name in a source with these macros, allowed so many bytes of dynamic shared memory."""


def compile_for_device(source: Path, defines: Mapping[str, int | str], name: str, shared_bytes: int) -> Kernel:
    """By the compiler that torch carries, once a process for equal arguments."""
    return CudaModule(source, defines).function(name, shared_bytes)


POINTERS_BEFORE = ("x",)
POINTERS_OF_A_LAYER = ("input_norm", "qkv", "head_norm", "output", "post_norm", "gate_up", "down")
POINTERS_AFTER = (
    "final_norm", "head", "logits", "hidden", "kv", "cos", "sin", "slots", "positions", "kv_slots", "tables",
    "packed", "attended", "middle", "inner", "out", "middle_squares", "out_squares", "launches",
)  # fmt: skip
INTEGERS = ("rows", "table_stride", "block_size")


@cache
def pass_structure(num_layers: int) -> type[ctypes.Structure]:
    """`struct Pass` of the source."""
    names = [
        *POINTERS_BEFORE,
        *(f"{name}_{i}" for i in range(num_layers) for name in POINTERS_OF_A_LAYER),
        *POINTERS_AFTER,
    ]
    numbers = (
        ("cache_positions", ctypes.c_longlong),
        *((name, ctypes.c_int) for name in INTEGERS),
        ("eps", ctypes.c_float),
    )
    return type("Pass", (ctypes.Structure,), {"_fields_": [*((name, ctypes.c_void_p) for name in names), *numbers]})


class DecoderPass:
    """A stack over one cache, for up to `MAX_ROWS` rows in one launch."""

    def __init__(
        self,
        stack: Stack,
        kv: Tensor,
        vocabulary: int,
        *,
        reserved: int = 0,
        machine: Machine | None = None,
        compile_kernel: Compile = compile_for_device,
    ) -> None:
        """`kv` [L, 2, P, K, E] is read and written in place; heads have `vocabulary` outputs.

        Launches leave `reserved` multiprocessors to what runs beside them: a pass waits until each of its blocks has
        one to itself, so work of another stream on any of its own would hold up all of it.

        `machine` and `compile_kernel` are for those who have no GPU.
        """
        self.shape = Shape.of(stack, vocabulary)
        self.stack = stack
        self.kv = kv
        self.machine = machine or Machine.of(kv.device, reserved)
        self._compile = compile_kernel
        self._sizes: dict[int, _Size] = {}
        heads = stack.layers[0].heads
        shape, positions = self.shape, kv.shape[2]
        _check("kv", kv, (shape.num_layers, 2, positions, shape.num_kv_heads, shape.head_dim))
        _check("cos", heads.cos, (shape.max_positions, shape.head_dim // 2))
        _check("sin", heads.sin, (shape.max_positions, shape.head_dim // 2))
        _check("norm", stack.norm, (shape.width,))
        for layer in stack.layers:
            _check("input_norm", layer.input_norm, (shape.width,))
            _check("qkv", layer.qkv, (shape.packed, shape.width))
            _check("heads.norm", layer.heads.norm, (shape.num_heads + shape.num_kv_heads, shape.head_dim))
            _check("o", layer.o, (shape.width, shape.attended))
            _check("post_norm", layer.post_norm, (shape.width,))
            _check("gate_up", layer.gate_up, (2 * shape.inner, shape.width))
            _check("down", layer.down, (shape.width, shape.inner))

    def run(self, x: Tensor, head: Tensor, rows: KVRows, logits: Tensor, hidden: Tensor | None = None) -> None:
        """Logits [R, V] of input rows `x` [R, D], each a position of a slot of its own; and the hidden states [R, D].

        What is computed: `reference.py`. A capture must come after the first call with as many rows, which compiles.
        """
        count, shape = len(x), self.shape
        _check("x", x, (count, shape.width))
        _check("head", head, (shape.vocabulary, shape.width))
        _check("logits", logits, (count, shape.vocabulary))
        if rows.block_size % CHUNK:
            raise ValueError(f"a pass takes blocks of multiples of {CHUNK} positions, not of {rows.block_size}")
        if hidden is not None:
            _check("hidden", hidden, (count, shape.width))
        size = self._size(count)
        size.launch(self._structure(size, x, head, rows, logits, hidden))

    def _size(self, rows: int) -> _Size:
        tiling = Tiling.choose(self.shape, rows, self.machine)
        if tiling.rows not in self._sizes:
            kernel = self._compile(SOURCE, tiling.defines(self.shape), "decoder_pass", tiling.shared_bytes)
            self._sizes[tiling.rows] = _Size.make(kernel, tiling, self.shape, self.kv.device)
        return self._sizes[tiling.rows]

    def _structure(
        self, size: _Size, x: Tensor, head: Tensor, rows: KVRows, logits: Tensor, hidden: Tensor | None
    ) -> ctypes.Structure:
        heads = self.stack.layers[0].heads
        pointers = [x]
        for layer in self.stack.layers:
            pointers += [layer.input_norm, layer.qkv, layer.heads.norm, layer.o]
            pointers += [layer.post_norm, layer.gate_up, layer.down]
        pointers += [self.stack.norm, head, logits]
        after = [self.kv, heads.cos, heads.sin, rows.slots, rows.positions, rows.kv_slots, rows.tables]
        after += [*size.handed_over.values(), size.launches]
        return pass_structure(self.shape.num_layers)(
            *(tensor.data_ptr() for tensor in pointers),
            None if hidden is None else hidden.data_ptr(),
            *(tensor.data_ptr() for tensor in after),
            self.kv.shape[2],
            len(x),
            rows.tables.stride(0),
            rows.block_size,
            self.stack.eps,
        )


@dataclass(frozen=True)
class _Size:
    """A class of row counts: its kernel, and the memory that blocks hand over in."""

    kernel: Kernel
    blocks: int
    handed_over: dict[str, Tensor]
    """In the order of the structure; a word that is not there is `EMPTY`.

    packed [L, rows, (H + 2 K) * E], attended [L, rows, H * E] and inner [L, rows, F] of each layer;
    middle [L, rows, D], the residual stream between attention and MLP, times the gains of the norm that follows;
    out [L + 1, rows, D], the same after each layer: the last layer's is in either of the last two places;
    middle_squares and out_squares, float32 [L or L + 1, rows, D / 8]: its sums of squares, eight columns each.
    """
    launches: Tensor
    """int32 [1]: so far."""

    @classmethod
    def make(cls, kernel: Kernel, tiling: Tiling, shape: Shape, device: torch.device) -> _Size:
        def empty(places: int, width: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
            words = torch.full(
                (places, tiling.rows, width * dtype.itemsize // 4), EMPTY, dtype=torch.int32, device=device
            )
            return words.view(dtype)

        count, width = shape.num_layers, shape.width
        handed_over = {
            "packed": empty(count, shape.packed),
            "attended": empty(count, shape.attended),
            "middle": empty(count, width),
            "inner": empty(count, shape.inner),
            "out": empty(count + 1, width),
            "middle_squares": empty(count, width // 8, torch.float32),
            "out_squares": empty(count + 1, width // 8, torch.float32),
        }
        return cls(kernel, tiling.blocks, handed_over, torch.zeros(1, dtype=torch.int32, device=device))

    def launch(self, structure: ctypes.Structure) -> None:
        # Weights depend on nothing, so they may be on their way while the launch in front still runs.
        self.kernel.launch((self.blocks,), (THREADS,), (structure,), programmatic=True)


def _check(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape or tensor.dtype != torch.bfloat16 or not tensor.is_contiguous():
        raise ValueError(
            f"{name} is contiguous bfloat16 {list(shape)}, not "
            f"{'' if tensor.is_contiguous() else 'strided '}{tensor.dtype} {list(tensor.shape)}"
        )
    if tensor.data_ptr() % 16:
        raise ValueError(f"{name} begins at a multiple of 16 bytes")

"""Named stacks and batches of rows over a paged cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ttsbench.kernels.attention import Heads, KVRows
from ttsbench.kernels.attention.cases import at_once
from ttsbench.kernels.decoder_pass.cuda import DecoderPass
from ttsbench.kernels.decoder_pass.reference import decoder_pass as reference
from ttsbench.kernels.decoder_pass.shape import MAX_ROWS
from ttsbench.kernels.decoder_pass.types import Layer, Stack
from ttsbench.kernels.work import LARGE, Sizes, Work, nbytes, over


@dataclass(frozen=True)
class Geometry:
    """Of a stack and its head; heads are 128 wide, two query heads to a key-value head."""

    name: str
    width: int
    inner: int
    kv_heads: int
    vocabulary: int
    layers: int
    max_positions: int = 16

    @property
    def packed(self) -> int:
        return 4 * self.kv_heads * 128


@dataclass(frozen=True)
class Case:
    """One row for each of `positions`, each of a slot of its own. Pages that no row may read hold NaN."""

    geometry: Geometry
    positions: tuple[int, ...]
    block_size: int = 16

    @property
    def name(self) -> str:
        return f"{self.geometry.name}, {len(self.positions)} rows up to {max(self.positions)}"


TOY = Geometry("toy", width=256, inner=256, kv_heads=2, vocabulary=256, layers=2)
WIDE = Geometry("toy with a wide middle", width=512, inner=1024, kv_heads=2, vocabulary=640, layers=3)
LONG = Geometry("toy with a long past", width=256, inner=256, kv_heads=1, vocabulary=256, layers=1, max_positions=400)
PREDICTOR = Geometry("predictor", width=1024, inner=3072, kv_heads=8, vocabulary=2048, layers=5)
TALKER = Geometry("talker", width=2048, inner=6144, kv_heads=8, vocabulary=3072, layers=3, max_positions=600)
"""Three layers of the released 28: all are alike."""
SMALL_TALKER = Geometry("small talker", 1024, 3072, kv_heads=8, vocabulary=3072, layers=3, max_positions=600)


def mixed(rows: int, highest: int) -> tuple[int, ...]:
    """Positions of `rows` rows, all different as far as they go, the first at `highest`, the second at 0."""
    return tuple((highest - row * 7) % (highest + 1) if row != 1 else 0 for row in range(rows))


SMALL = (
    *(Case(TOY, (at,)) for at in (0, 1, 15)),
    Case(TOY, mixed(3, 7)),
    Case(TOY, mixed(8, 15)),
    Case(TOY, mixed(9, 1)),
    Case(LONG, mixed(3, 300)),
    Case(LONG, (129, 127, 128), block_size=32),
    Case(WIDE, mixed(5, 15)),
    Case(WIDE, mixed(11, 15)),
    Case(TOY, mixed(16, 15)),
)


def released(rows: int, sizes: Sizes = LARGE) -> list[Case]:
    """One position of the code predictor and one of the whole talker; nothing for more rows than a pass takes."""
    if rows > MAX_ROWS:
        return []
    talker = Geometry(
        f"whole talker of {sizes.width}", sizes.width, sizes.inner, 8, vocabulary=3072, layers=28, max_positions=128
    )
    return [Case(PREDICTOR, (8,) * rows), Case(talker, (64,) * rows)]


RELEASED = (
    *over((8,), released),
    *(Case(PREDICTOR, (at,) * rows) for rows in (1, 3, 8, 13, 16) for at in (0, 1, 7, 15)),
    *(Case(PREDICTOR, mixed(rows, 15)) for rows in (5, 16)),
    *(Case(geometry, mixed(rows, 599)) for geometry in (TALKER, SMALL_TALKER) for rows in (1, 8, 13, 16)),
)


@dataclass(frozen=True)
class Inputs:
    """In the order of the reference's arguments."""

    x: Tensor
    stack: Stack
    head: Tensor
    rows: KVRows
    kv: Tensor


def made_stack(geometry: Geometry, device: torch.device | str, dtype: torch.dtype) -> tuple[Stack, Tensor]:
    """Seeded weights that keep the size of what they multiply, and a head."""
    noise = torch.Generator(device).manual_seed(0)

    def normal(*shape: int, around: float = 0.0, size: float = 0.1) -> Tensor:
        return (around + size * torch.randn(shape, generator=noise, device=device)).to(dtype)

    def product(outputs: int, inputs: int) -> Tensor:
        return normal(outputs, inputs, size=inputs**-0.5)

    g = geometry
    angles = torch.outer(torch.arange(g.max_positions), 1e4 ** -torch.linspace(0, 1, 64)).to(device)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    layers = tuple(
        Layer(
            input_norm=normal(g.width, around=1.0),
            qkv=product(g.packed, g.width),
            heads=Heads(2 * g.kv_heads, g.kv_heads, 128, 1e-6, normal(3 * g.kv_heads, 128, around=1.0), cos, sin),
            o=product(g.width, 2 * g.kv_heads * 128),
            post_norm=normal(g.width, around=1.0),
            gate_up=product(2 * g.inner, g.width),
            down=product(g.width, g.inner),
        )
        for _ in range(g.layers)
    )
    return Stack(layers, normal(g.width, around=1.0)), product(g.vocabulary, g.width)


def inputs(case: Case, device: torch.device | str, dtype: torch.dtype, seed: int = 0) -> Inputs:
    """The weights are the geometry's; rows, past and pages depend on `seed`."""
    noise = torch.Generator().manual_seed(seed)
    stack, head = made_stack(case.geometry, device, dtype)
    count, size = len(case.positions), case.block_size
    per_slot = -(-max(max(case.positions) + 1, case.geometry.max_positions) // size)
    tables = torch.randperm(count * per_slot, generator=noise).int().view(count, per_slot)
    slots = torch.randperm(count, generator=noise)
    positions = torch.tensor(case.positions)

    def places(slot: Tensor, position: Tensor) -> Tensor:
        return tables[slot, position // size].long() * size + position % size

    kv = torch.full(
        (case.geometry.layers, 2, tables.numel() * size, case.geometry.kv_heads, 128), float("nan"), dtype=dtype
    )
    for slot, end in zip(slots, case.positions, strict=True):
        past = places(slot, torch.arange(end))
        kv[:, :, past] = torch.randn(kv[:, :, past].shape, generator=noise).to(dtype)
    rows = KVRows(slots, positions, places(slots, positions), tables, size)
    moved = {name: getattr(rows, name).to(device) for name in ("slots", "positions", "kv_slots", "tables")}
    x = torch.randn(count, case.geometry.width, generator=noise).to(device, dtype)
    return Inputs(x, stack, head, KVRows(**moved, block_size=size), kv.to(device))


def work(case: Case, device: torch.device | str, dtype: torch.dtype) -> Work:
    """Every weight is read once for all rows, every position of the past once, and each row's own is written."""
    given = inputs(case, device, dtype)
    geometry, stack, kv = case.geometry, given.stack, given.kv
    products = [given.head]
    norms = [stack.norm]
    for layer in stack.layers:
        products += [layer.qkv, layer.o, layer.gate_up, layer.down]
        norms += [layer.input_norm, layer.heads.norm, layer.post_norm]
    rows, seen = len(case.positions), sum(case.positions) + len(case.positions)
    position = geometry.layers * 2 * geometry.kv_heads * 128
    outputs = rows * (geometry.vocabulary + geometry.width)
    moved = nbytes(given.x, *products, *norms) + (seen * position + outputs) * kv.element_size()
    # Of the keys and values of a position, each term meets two query heads, in a product and a sum.
    flops = 2.0 * rows * sum(weight.numel() for weight in products) + 4.0 * seen * position
    kernel = _launches(given) if kv.is_cuda else reference
    plain = partial(reference, attend=at_once)  # which does not look at positions on the host
    return Work(kernel, plain, tuple(vars(given).values()), (*products, *norms), moved, flops)


def _launches(given: Inputs) -> Callable[..., tuple[Tensor, Tensor]]:
    """The reference's arguments and results by one pass, whatever weights are given."""
    made = DecoderPass(given.stack, given.kv, len(given.head))

    def run(x: Tensor, stack: Stack, head: Tensor, rows: KVRows, kv: Tensor) -> tuple[Tensor, Tensor]:
        assert kv is made.kv
        # A launch takes the addresses of the stack of its time. A pass for each copy of the weights would be compiled
        # at its first launch, which for all copies but the first falls into a capture.
        made.stack = stack
        logits, hidden = x.new_empty(len(x), len(head)), torch.empty_like(x)
        made.run(x, head, rows, logits, hidden)
        return logits, hidden

    return run

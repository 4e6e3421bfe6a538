"""The registry of `scripts/bench_kernels.py`: every kernel at the shapes of a step of so many rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from scripts import kernel_jobs_codec as codec
from scripts.kernel_trials import BFLOAT16, BYTES, Job, Trial, off_by, only, trial
from scripts.tune_fused_linear import operations
from ttsbench.kernels import draw as drawing
from ttsbench.kernels.attention import Heads, KVRows, paged_attention
from ttsbench.kernels.attention.reference import paged_attention as attention_reference
from ttsbench.kernels.draw import cases as draw_cases
from ttsbench.kernels.draw import reference as draw_reference
from ttsbench.kernels.fused_linear import cases as linear_cases
from ttsbench.kernels.fused_linear import reference as linear_reference
from ttsbench.kernels.linear import linear
from ttsbench.kernels.next_input import FrameRows, next_input
from ttsbench.kernels.next_input.reference import next_input as next_reference
from ttsbench.kernels.rms_norm import add_rms_norm
from ttsbench.kernels.rms_norm.reference import add_rms_norm as norm_reference

CONTEXT = 64
"""Key-value positions of a talker row: what Seed-TTS English averages."""


def fused_linear_job(case: linear_cases.Case) -> Job:
    """Torch's time is that of separate operations."""
    plain = linear_cases.Operations(
        lambda x, weight, tickets: linear_reference.linear(x, weight),
        lambda x, weight, residual, tickets: linear_reference.linear_add(x, weight, residual),
        lambda x, weight, eps, tickets, swiglu: linear_reference.norm_linear(x, weight, eps, swiglu),
    )

    def make(seed: int, device: str) -> Trial:
        given, ours = linear_cases.inputs(case, device, BFLOAT16, seed), operations()

        @cache
        def want() -> Tensor:
            return given.widened().run(plain).rows

        def error(**options: object) -> float:
            return off_by(given.run(ours, **options).rows, want())

        return Trial(lambda **options: given.run(ours, **options), error, lambda: given.run(plain))

    return Job(f"{case.name}, {case.rows} rows", make, case.num_bytes(BYTES), case.flops)


def fused_linear_jobs(rows: int) -> Iterator[Job]:
    """All products of a step."""
    return map(fused_linear_job, linear_cases.released(rows))


def linear_jobs(rows: int) -> Iterator[Job]:
    """The head of the talker: a single row has a kernel, more are torch's own."""
    width, outputs = 2048, 3072

    def make(seed: int, device: str) -> Trial:
        noise = torch.Generator(device).manual_seed(seed)
        x, weight = (torch.randn(n, width, generator=noise, device=device).to(BFLOAT16) for n in (rows, outputs))
        return trial(linear, torch.nn.functional.linear, (x, weight), only)

    moved = (outputs * width + rows * (width + outputs)) * BYTES
    yield Job(f"talker head, {rows} rows", make, moved, 2 * rows * width * outputs)


def rms_norm_jobs(rows: int) -> Iterator[Job]:
    """The final norm of the talker, and a norm behind a residual sum."""
    for with_residual in (False, True):

        def make(seed: int, device: str, with_residual: bool = with_residual) -> Trial:
            noise = torch.Generator(device).manual_seed(seed)
            x, residual, weight = (
                torch.randn(n, 2048, generator=noise, device=device).to(BFLOAT16) for n in (rows, rows, 1)
            )
            arguments = (x, residual if with_residual else None, weight[0], 1e-6)
            return trial(add_rms_norm, norm_reference, arguments, lambda result, _: result)

        name = f"{'with' if with_residual else 'no'} residual, {rows} rows"
        yield Job(name, make, rows * 2048 * BYTES * (4 if with_residual else 2), 6 * rows * 2048)


def attention_jobs(rows: int) -> Iterator[Job]:
    """Talker rows in the middle of an utterance and the last of the code predictor's; 16 query and 8 key heads."""
    for name, position, block in (("talker", CONTEXT, 16), ("predictor", 15, 16)):
        per_slot = position // block + 1

        def make(
            seed: int, device: str, position: int = position, block: int = block, per_slot: int = per_slot
        ) -> Trial:
            noise = torch.Generator(device).manual_seed(seed)

            def normal(*shape: int) -> Tensor:
                return torch.randn(shape, generator=noise, device=device).to(BFLOAT16)

            angles = torch.rand(position + 1, 64, generator=noise, device=device)
            heads = Heads(16, 8, 128, 1e-6, normal(24, 128), angles.cos().to(BFLOAT16), angles.sin().to(BFLOAT16))
            tables = torch.randperm(rows * per_slot, generator=noise, device=device).view(rows, per_slot).int()
            slots = torch.arange(rows, device=device)
            written = tables[:, position // block].long() * block + position % block
            where = KVRows(slots, torch.full_like(slots, position), written, tables, block)
            cache_shape = (rows * per_slot * block, 8, 128)
            arguments = (normal(rows, 32 * 128), heads, where, normal(*cache_shape), normal(*cache_shape), 1)
            return trial(
                paged_attention, attention_reference, arguments,
                lambda result, given: (result, given[3], given[4]), baseline=False,
            )  # fmt: skip

        moved = rows * 128 * (32 + 16 + 2 * 8 * (position + 1)) * BYTES
        flops = 4 * rows * 16 * 128 * (position + 1)
        yield Job(f"{name}, {position} positions before, {rows} rows", make, moved, flops)


def draw_jobs(rows: int) -> Iterator[Job]:
    """Codebook 0 of the talker and another of the code predictor; judged by how many codes are other ones."""
    by_name = {case.name: case for case in draw_cases.CASES}
    for known in ("talker, 128 rows", "predictor, 128 rows"):
        case = replace(by_name[known], rows=rows)

        def make(seed: int, device: str, case: draw_cases.Case = case) -> Trial:
            given, same = (draw_cases.make(case, where, seed) for where in (device, "cpu"))

            def error(**_: object) -> float:
                book = drawn(drawing, given)
                drawn(draw_reference, same)
                return float((given.drawn.codes[:, book].cpu() != same.drawn.codes[:, book]).float().mean())

            return Trial(lambda **_: drawn(drawing, given), error)

        moved = rows * (case.vocabulary + 2 * case.width) * BYTES
        yield Job(f"{known.split(',')[0]}, {rows} rows", make, moved, 0)


def drawn(package: Any, given: draw_cases.Inputs) -> int:
    """Draw as the case says; which codebook that was."""
    if given.rules is None:
        package.draw_code(5, given.logits, given.rows, given.settings, given.drawn, given.table, given.out)
        return 5
    assert given.out is not None
    package.draw_first_code(
        given.logits, given.rows, given.settings, given.rules, given.drawn, given.table, given.out
    )  # fmt: skip
    return 0


def next_input_jobs(rows: int) -> Iterator[Job]:
    """The talker's next input from the codes of a frame."""
    books, size, width = 16, 2048, 2048

    def make(seed: int, device: str) -> Trial:
        noise = torch.Generator(device).manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=noise, device=device).to(BFLOAT16)

        codes = torch.randint(size, (rows, books), generator=noise, device=device)
        slots = torch.arange(rows, device=device)
        has_text = slots % 2 == 0
        who = FrameRows(slots, slots * 0 + 3, slots, has_text, normal(rows, width), slots * 0 + 100, eos=2150)
        offsets = torch.arange(books, device=device) * size
        report = torch.zeros(rows, books + 2, dtype=torch.int64, device=device)
        table, inputs = normal(books * size, width), normal(rows, width)
        arguments = (codes, has_text | True, table, offsets, who, inputs, report)
        return trial(next_input, next_reference, arguments, lambda _, given: (given[5], given[6]))

    yield Job(f"{rows} rows", make, rows * width * (books + 2) * BYTES, rows * width * books)


JOBS: dict[str, Callable[[int], Iterator[Job]]] = {
    "attention": attention_jobs,
    "causal_conv": codec.causal_conv_jobs,
    "codebook_sum": codec.codebook_sum_jobs,
    "draw": draw_jobs,
    "dwconv_norm": codec.dwconv_norm_jobs,
    "fused_linear": fused_linear_jobs,
    "linear": linear_jobs,
    "next_input": next_input_jobs,
    "output_conv": codec.output_conv_jobs,
    "ring_attention": codec.ring_attention_jobs,
    "rms_norm": rms_norm_jobs,
    "shift_tails": codec.shift_tails_jobs,
}
"""By operation: jobs of a step of so many rows."""

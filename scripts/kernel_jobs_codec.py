"""The codec's kernels, at the shapes of one frame of so many rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scripts.kernel_trials import BFLOAT16, BYTES, Job, Trial, only, trial
from ttsbench.kernels.causal_conv import cases as conv_cases
from ttsbench.kernels.causal_conv import causal_conv
from ttsbench.kernels.causal_conv.reference import causal_conv as conv_reference
from ttsbench.kernels.codebook_sum import cases as sum_cases
from ttsbench.kernels.codebook_sum import codebook_sum
from ttsbench.kernels.codebook_sum.reference import codebook_sum as sum_reference
from ttsbench.kernels.dwconv_norm import cases as dwconv_cases
from ttsbench.kernels.dwconv_norm import dwconv_norm
from ttsbench.kernels.dwconv_norm.reference import dwconv_norm as dwconv_reference
from ttsbench.kernels.output_conv import cases as pcm_cases
from ttsbench.kernels.output_conv import output_conv
from ttsbench.kernels.output_conv.reference import output_conv as pcm_reference
from ttsbench.kernels.ring_attention import cases as ring_cases
from ttsbench.kernels.ring_attention import ring_attention
from ttsbench.kernels.ring_attention.reference import ring_attention as ring_reference
from ttsbench.kernels.shift_tails import cases as tail_cases
from ttsbench.kernels.shift_tails import shift_tails
from ttsbench.kernels.shift_tails.reference import shift_tails as tail_reference


def causal_conv_jobs(rows: int) -> Iterator[Job]:
    """All products of a codec frame."""
    for case in conv_cases.released(rows):

        def make(seed: int, device: str, case: conv_cases.Case = case) -> Trial:
            given = conv_cases.inputs(case, device, BFLOAT16, seed)
            return trial(
                causal_conv, conv_reference, tuple(vars(given).values()),
                lambda _, arguments: [out for out in arguments[6:] if out is not None],
            )  # fmt: skip

        read = case.length + (case.taps - 1) * case.dilation
        written = case.length * (case.plain + case.snake + case.residual)
        moved = rows * (read * case.channels + written * case.width) + case.taps * case.channels * case.width
        yield Job(f"{case.name}, {rows} rows", make, moved * BYTES, case.flops)


def codebook_sum_jobs(rows: int) -> Iterator[Job]:
    """Codes of a frame to a vector."""
    case = replace(sum_cases.RELEASED[0], rows=rows)

    def make(seed: int, device: str) -> Trial:
        given = sum_cases.inputs(case, device, BFLOAT16)
        return trial(codebook_sum, sum_reference, given, lambda _, arguments: arguments[2:])

    moved = rows * (case.books * (8 + 4 * case.width) + BYTES * case.width)
    yield Job(f"{rows} rows", make, moved, rows * case.books * case.width)


def dwconv_norm_jobs(rows: int) -> Iterator[Job]:
    """Both ConvNeXt blocks of the codec."""
    for length in (2, 4):
        case = replace(dwconv_cases.RELEASED[0], rows=rows, length=length)

        def make(seed: int, device: str, case: dwconv_cases.Case = case) -> Trial:
            given = dwconv_cases.inputs(case, device, BFLOAT16)
            return trial(dwconv_norm, dwconv_reference, given, only)

        moved = rows * (2 * length + 6) * case.channels * BYTES
        yield Job(f"{length} positions, {rows} rows", make, moved, 14 * rows * length * case.channels)


def output_conv_jobs(rows: int) -> Iterator[Job]:
    """The codec's last convolution."""
    case = replace(pcm_cases.RELEASED[0], rows=rows)

    def make(seed: int, device: str) -> Trial:
        return trial(output_conv, pcm_reference, pcm_cases.inputs(case, device, BFLOAT16), only)

    moved = rows * ((case.length + 6) * case.channels * BYTES + 4 * case.length)
    yield Job(f"{rows} rows", make, moved, 14 * rows * case.length * case.channels)


def ring_attention_jobs(rows: int) -> Iterator[Job]:
    """A layer of the codec's transformer; rows that have been running for different times."""
    positions = tuple(37 * row % 400 for row in range(1, rows + 1))
    case = replace(ring_cases.RELEASED[0], positions=positions)

    def make(seed: int, device: str) -> Trial:
        given = ring_cases.inputs(case, device, BFLOAT16)
        return trial(
            ring_attention, ring_reference, tuple(vars(given).values()),
            lambda result, arguments: (result, arguments[1], arguments[2]),
        )  # fmt: skip

    seen = sum(min(position + 1, case.window) for position in positions)
    heads = case.heads + 2 * case.kv_heads + case.heads
    moved = (seen * 2 * case.kv_heads + rows * heads) * case.head_dim * BYTES
    yield Job(f"{rows} rows", make, moved, 4 * seen * case.heads * case.head_dim)


def shift_tails_jobs(rows: int) -> Iterator[Job]:
    """All tails of a codec frame."""
    case = replace(tail_cases.RELEASED[0], rows=rows)

    def make(seed: int, device: str) -> Trial:
        given = tail_cases.inputs(case, device, BFLOAT16)
        return trial(shift_tails, tail_reference, given, lambda _, arguments: [arguments[1]])

    moved = rows * sum(2 * site.tail * site.channels for site in case.sites) * BYTES
    yield Job(f"{rows} rows", make, moved, 0)

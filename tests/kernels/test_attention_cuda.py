"""The CUDA kernel of paged attention in the emulator and on a GPU: against the formula, and what it may touch when."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernels.emulated import EmulatedModule, changed, tensors
from tests.kernels.test_attention import TOLERANCE, error, widened
from ttsbench.kernels import nvrtc
from ttsbench.kernels.attention import cases, cuda
from ttsbench.kernels.attention.cases import Case, Inputs, decode
from ttsbench.kernels.attention.reference import paged_attention as reference
from ttsbench.kernels.cuda_source import CudaSource, compile_source

PREDICTOR = (
    Case("a chunk", decode((0, 1, 7, 8, 14, 15)), 4, 2, 128),
    Case("a chunk, three heads", decode((0, 9)), 6, 3, 128, padding=2),
    Case("pairs in a chunk", ((0, 2), (0, 2), (6, 2), (7, 2), (14, 2)), 4, 2, 128),
    Case("prompts in a chunk", ((5, 1), (0, 3), (6, 1), (2, 10)), 4, 2, 128),
)
TALKER = (
    Case("decode", decode((0, 15, 16, 17, 63, 64, 65, 79, 80, 200)), 4, 2, 128, padding=2),
    Case("decode, pages of two chunks", decode((0, 15, 16, 31, 32, 63, 64, 200)), 2, 1, 128, block_size=32),
    Case("pairs", ((15, 2), (14, 2), (16, 2), (62, 2), (63, 2), (40, 1), (39, 1), (128, 2)), 4, 2, 128),
    Case("mixed", ((5, 1), (64, 1), (0, 20), (200, 1), (60, 7), (0, 5)), 4, 2, 128, padding=3),
    Case("two rows of padding", ((3, 1), (62, 4)), 4, 2, 128, padding=2),
)
LONG = replace(TALKER[0], name="decode of many rows", spans=TALKER[0].spans * 2)
"""More rows than eight warps are taken for."""
SMALL = (*PREDICTOR, *TALKER, LONG)


def query_len(case: Case) -> int:
    """The least bound that is true, padding apart."""
    return max(rows for _, rows in case.spans)


class Emulator:
    """Compiles for this machine; launches go by the order of `seed`, and touch `memory` and the output alone."""

    def __init__(self, memory: Any, seed: int = 0, source: Path = cuda.SOURCE) -> None:
        self.memory = memory
        self.seed = seed
        self.source = source

    def __call__(self, source: Path, defines: Mapping[str, int | str], name: str, device: torch.device) -> Any:
        assert device == torch.device("cpu")
        kernel = EmulatedModule(self.source, defines).function(name)

        def launch(grid: Any, block: Any, arguments: Any, programmatic: bool = False) -> None:
            (step,) = arguments
            assert programmatic
            size = step.rows * 2 * 2 * 128 * int(defines["NUM_KV_HEADS"])
            out = torch.frombuffer((ctypes.c_char * size).from_address(step.out), dtype=torch.uint8)
            memory = [*tensors(self.memory), out]
            kernel.launch(grid, block, arguments, programmatic=True, seed=self.seed, memory=memory)

        return SimpleNamespace(launch=launch)


def run(given: Inputs, length: int, seed: int = 0, source: Path = cuda.SOURCE) -> Tensor:
    """On what the tensors are on."""
    arguments = given.qkv, given.heads, given.rows, given.keys, given.values, length
    if given.qkv.is_cuda:
        assert cuda.supports(given.qkv, given.heads, given.rows)
        return cuda.paged_attention(*arguments)
    return cuda.paged_attention(*arguments, compile_kernel=Emulator(given, seed, source))


def check(case: Case, device: str, seed: int = 0, source: Path = cuda.SOURCE) -> None:
    """Outputs, what is written to the cache, and that nothing else of it changes. Raises AssertionError."""
    given = cases.inputs(case, device, torch.bfloat16)
    want = widened(given)
    right = reference(*vars(want).values())
    before = given.keys.clone(), given.values.clone()
    got = run(given, query_len(case), seed, source)
    real = slice(len(got) - case.padding)
    assert error(got[real], right[real]) <= TOLERANCE[torch.bfloat16]
    written = given.rows.kv_slots[real]
    assert error(given.keys[written], want.keys[written]) <= TOLERANCE[torch.bfloat16]
    assert torch.equal(given.values[written].double(), want.values[written])
    for now, then in zip((given.keys, given.values), before, strict=True):
        then[given.rows.kv_slots] = now[given.rows.kv_slots]
        assert torch.equal(now.view(torch.int16), then.view(torch.int16)), "another place of the cache changed"


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_the_kernel_gives_the_formula_in_any_order(case: Case, seed: int) -> None:
    """Red when a position, a head, a dim or a page is taken for another, when what was in a page before reaches a
    result, when rows of one launch do not see each other, or a place outside of what the launch was given is touched.
    """
    check(case, "cpu", seed)


@pytest.mark.gpu
@pytest.mark.parametrize("case", [*SMALL, *cases.released(128)], ids=lambda case: case.name)
def test_the_kernel_gives_the_formula_on_a_gpu(case: Case) -> None:
    check(case, "cuda")


def part_of(given: Inputs, rows: slice) -> Inputs:
    """The same slots, of which others have no row."""
    part = {name: getattr(given.rows, name)[rows] for name in ("slots", "positions", "kv_slots")}
    return replace(given, qkv=given.qkv[rows].clone(), rows=replace(given.rows, **part))


def check_alone(device: str) -> None:
    for case in SMALL:
        given = cases.inputs(case, device, torch.bfloat16)
        whole = run(given, query_len(case))
        firsts = [row for row in range(len(whole) - case.padding) if case.spans[int(given.rows.slots[row])][1] == 1]
        for row in firsts:
            part = part_of(given, slice(row, row + 1))
            alone = run(replace(part, keys=given.keys.clone(), values=given.values.clone()), 1)
            assert torch.equal(alone[0], whole[row]), f"{case.name}, row {row}"


def test_a_row_does_not_know_who_else_is_there() -> None:
    """Every decode row alone in a launch, bit by bit, also those that were beside prompts. Red when the cut of a row's
    sum depends on how many rows there are, on their lengths, or on the kind of step.
    """
    check_alone("cpu")


@pytest.mark.gpu
def test_a_row_does_not_know_who_else_is_there_on_a_gpu() -> None:
    check_alone("cuda")


@pytest.mark.parametrize("case", [PREDICTOR[0], TALKER[0], TALKER[3]], ids=lambda case: case.name)
def test_a_broken_row_is_alone(case: Case) -> None:
    """NaN in a row's queries. Red when one reaches another row, or gets lost."""
    given = cases.inputs(case, "cpu", torch.bfloat16)
    broken = replace(given, qkv=given.qkv.clone(), keys=given.keys.clone(), values=given.values.clone())
    broken.qkv[1, 5] = float("nan")
    sound, got = run(given, query_len(case)), run(broken, query_len(case), seed=1)
    heads = got[1].unflatten(0, (case.heads, -1))
    assert heads[0].isnan().all()
    got[1] = sound[1]
    real = slice(len(got) - case.padding)
    assert torch.equal(got[real], sound[real])


def kernel_text() -> str:
    text = cuda.SOURCE.read_text()
    assert text.count("    gdc_wait();\n") == 1
    return text


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_nothing_is_touched_early_that_a_kernel_in_front_may_write(case: Case, tmp_path: Path) -> None:
    """The kernel up to its wait, which may not read its rows nor write; in a mixed step's second launch it may read of
    the cache only what belongs to rows alone in their slot. Red when a load of `qkv` moves before the wait, or a store,
    or when a prompt's row reads keys of its own launch.
    """
    text = kernel_text().replace("    gdc_launch_dependents();\n", "    return;\n")
    source = changed(cuda.SOURCE, text, tmp_path)
    given = cases.inputs(case, "cpu", torch.bfloat16)
    before = given.keys.clone(), given.values.clone()

    def compile_kernel(path: Path, defines: Mapping[str, int | str], name: str, device: torch.device) -> Any:
        cache = pages(given, case) if defines["MODE"] == cuda.ATTEND else [given.keys, given.values]
        return Emulator([given.heads, given.rows, cache], source=source)(path, defines, name, device)

    out = cuda.paged_attention(
        given.qkv, given.heads, given.rows, given.keys, given.values, query_len(case), compile_kernel
    )
    assert out.shape == (len(given.qkv), case.heads * 128)
    for now, then in zip((given.keys, given.values), before, strict=True):
        assert torch.equal(now.view(torch.int16), then.view(torch.int16))


def test_the_next_kernel_starts_after_this_ones_wait() -> None:
    """Which is why attention of a layer may read its earlier keys before its own: between the two stands that of
    another layer, and all before that one have ended. Red when the next kernel may start sooner.
    """
    text = kernel_text()
    assert text.count("gdc_launch_dependents();") == 1
    assert "    gdc_wait();\n    gdc_launch_dependents();\n" in text


def pages(given: Inputs, case: Case) -> list[Tensor]:
    """Of the cache, those of slots with one row."""
    alone = [slot for slot, (_, rows) in enumerate(case.spans) if rows == 1]
    firsts = (given.rows.tables[alone].flatten() * case.block_size).tolist()
    return [cache[first : first + case.block_size] for first in firsts for cache in (given.keys, given.values)]


@dataclass(frozen=True)
class Break:
    """Another text in place of one in the source, and a case that must see it."""

    before: str
    after: str
    case: Case


BREAKS = {
    "a position too many": Break(
        "group() + i / 2 * 8 < count ? score", "group() + i / 2 * 8 <= count ? score", TALKER[0]
    ),
    "a position too few of the past": Break("before < 0 ? position : position - 1;", "position - 1;", PREDICTOR[0]),
    "the own key is not there": Break("chunk.take_key(made, position);\n", ";\n", PREDICTOR[0]),
    "the own value is not there": Break("chunk.load_value(value, position);\n", ";\n", TALKER[0]),
    "the own key is not stored": Break(
        "if (vector == KEY) store_head(step.keys + place, made.head);", ";", PREDICTOR[3]
    ),
    "the predecessor's key is turned as the own": Break(
        "vector == BEFORE ? position - 1 : position)", "position)", TALKER[2]
    ),
    "the predecessor is another slot's": Break("step.slots[other] == step.slots[row] && ", "", TALKER[2]),
    "whoever has a neighbour is alone": Break(
        "return !(row > 0 && step.slots[row - 1] == slot) && ", "return ", TALKER[3]
    ),
    "queries are not waited for": Break("    if (!ONE_CHUNK) __syncthreads();\n", "", TALKER[0]),
    "parts are not waited for": Break("        __syncthreads();\n        meet(", "        meet(", TALKER[0]),
    "a stretch is left out": Break(
        "stretch < count; stretch += WARPS", "stretch + 1 < count; stretch += WARPS", TALKER[0]
    ),
    "a stretch forgets the one before": Break(
        "        softmax.start();\n", "        if (stretch == warp) softmax.start();\n", LONG
    ),
    "sums are not rescaled": Break("out[tile][column] *= shrink, ", "", TALKER[0]),
    "queries change places": Break("return QUERY + g % 2;", "return QUERY + 1 - g % 2;", PREDICTOR[0]),
    "nobody waits": Break("    gdc_wait();\n", "", PREDICTOR[0]),
    "who has nothing to store does not wait": Break("is_alone) return gdc_wait();", "is_alone) return;", TALKER[3]),
    "an output before the wait": Break(
        "    gdc_wait();\n", "    if (MODE != STORE) st_cg_u32(step.out, 0);\n    gdc_wait();\n", PREDICTOR[0]
    ),
    "the second half of a page is the first": Break("* PAGE + first % PAGE)", "* PAGE)", TALKER[1]),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_broken_is_noticed(name: str, tmp_path: Path) -> None:
    """A line of the source changed: one of a few orders must fail, so the tests above can."""
    one = BREAKS[name]
    assert kernel_text().count(one.before) == 1, "the line is not there to be broken"
    source = changed(cuda.SOURCE, kernel_text().replace(one.before, one.after), tmp_path)
    with pytest.raises((AssertionError, RuntimeError)):
        check_some_orders(one.case, source)


def check_some_orders(case: Case, source: Path) -> None:
    for seed in range(3):
        check(case, "cpu", seed, source)


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize(("rows", "positions"), [(64, 16), (8, 4096), (64, 4096)])
def test_released_shapes_compile_for_hopper(mode: int, rows: int, positions: int) -> None:
    """Red when the source is more than the assembler takes, or its registers spill to memory: a thread has no more than
    128, so that four blocks find room beside others.
    """
    try:
        nvrtc.compiler()
    except RuntimeError as error:
        pytest.skip(str(error))
    defines = cuda.macros(mode, *cuda.choose(mode, rows, positions, 8), 8, 16)
    assert compile_source(CudaSource.read(cuda.SOURCE, defines), "sm_90a")

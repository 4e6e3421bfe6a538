"""The pass against the formula in float64: on a CPU in the emulator, in many orders, and on a GPU.

What a pass promises besides its numbers: it takes nothing from the memory that blocks hand over in but what it has put
there itself, it reads and writes nothing else than it is given, rows know nothing of each other, and it says the same
twice.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernels.emulated import EmulatedKernel, EmulatedModule
from ttsbench.kernels import nvrtc
from ttsbench.kernels.cuda_source import CudaSource, compile_source
from ttsbench.kernels.decoder_pass import MAX_ROWS, DecoderPass, Shape, cases, cuda, unsupported
from ttsbench.kernels.decoder_pass.cases import (
    LONG,
    PREDICTOR,
    SMALL_TALKER,
    TALKER,
    TOY,
    WIDE,
    Case,
    Geometry,
    Inputs,
    mixed,
)
from ttsbench.kernels.decoder_pass.cuda import Kernel
from ttsbench.kernels.decoder_pass.reference import decoder_pass as reference
from ttsbench.kernels.decoder_pass.shape import Machine, Tiling

H200 = Machine(blocks=132, shared_bytes=232448)
FEW_BLOCKS = Machine(blocks=16, shared_bytes=56 * 1024)
"""Each has several columns, and room for two or three units of weights, so that the ring comes round often."""
SOME_BLOCKS = Machine(blocks=40, shared_bytes=72 * 1024)
"""Some have a column more than others."""
MANY_BLOCKS = Machine(blocks=72, shared_bytes=56 * 1024)
"""More than there are columns of the residual stream for."""

TOLERANCE_OF_A_LAYER = 0.007
"""Of a row, in the Euclidean norm, against float64; times the square root of the number of layers, as each adds errors
of its own to a residual stream that keeps them. Each of the some ten roundings to eight bits that a layer makes is off
by about 2^-9 / sqrt(3) of what it rounds.

Known, against float64 on a CPU, with these weights, the worst of up to 32 rows: torch in bfloat16, which rounds
every product, is off by 0.0092 to 0.0107 for the code predictor (5 layers), by 0.025 to 0.027 for talkers of 28, and
by 0.0043 to 0.0063 times the root at the toys' sizes; the pass, emulated, by 0.0080 to 0.0094 for the code predictor
and by 0.0039 to 0.0057 times the root at the toys' sizes with 1 to 28 layers. So 0.007 is a fifth above the worst of
the pass, and 0.037 the bar of a whole talker. Passes of that size were measured on an H200 against torch in bfloat16
alone: 0.026 to 0.035 apart (code predictor 0.0084 to 0.0091), where two computations that are each off by 0.026, and
not alike, would be 0.037 apart.
"""


def tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor in `value`."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from tensors(getattr(value, field.name))


def widened(value: Any) -> Any:
    """The same values in float64, in memory of their own."""
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, list | tuple):
        return [widened(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: widened(getattr(value, field.name)) for field in fields(value)})
    return value


def error(got: Tensor, want: Tensor) -> float:
    """The worst row's. NaN counts as infinite."""
    worst = float(((got.double() - want).norm(dim=-1) / want.norm(dim=-1)).max())
    return worst if worst == worst else float("inf")


class Emulator:
    """Compiles for this machine; launches go by the order of `seed`, and touch `memory` alone."""

    def __init__(self, seed: int, source: Path = cuda.SOURCE) -> None:
        self.seed = seed
        self.source = source
        self.memory: list[Any] = []
        self.kernels: list[EmulatedKernel] = []

    def __call__(self, source: Path, defines: Mapping[str, int | str], name: str, shared_bytes: int) -> Kernel:
        kernel = EmulatedModule(self.source, defines).function(name, shared_bytes)

        def launch(*what: Any, programmatic: bool = False) -> None:
            kernel.launch(*what, seed=self.seed, memory=list(tensors(self.memory)))

        return SimpleNamespace(launch=launch)


@dataclass
class Trial:
    """A pass, what it is given, and what it gives; `check` compares with the formula."""

    given: Inputs
    made: DecoderPass
    emulator: Emulator | None
    logits: Tensor
    hidden: Tensor

    @classmethod
    def on(cls, given: Inputs, machine: Machine | None = None, seed: int = 0, source: Path = cuda.SOURCE) -> Trial:
        """On what the tensors are on: a GPU, or in the emulator, which needs a `machine`."""
        logits = torch.empty(len(given.x), len(given.head), dtype=given.x.dtype, device=given.x.device)
        hidden = torch.empty_like(given.x)
        if given.x.is_cuda:
            return cls(
                given, DecoderPass(given.stack, given.kv, len(given.head), machine=machine), None, logits, hidden
            )
        emulator = Emulator(seed, source)
        made = DecoderPass(given.stack, given.kv, len(given.head), machine=machine, compile_kernel=emulator)
        emulator.memory += [given, logits, hidden, made._sizes]
        return cls(given, made, emulator, logits, hidden)

    def run(self) -> None:
        given = self.given
        self.made.run(given.x, given.head, given.rows, self.logits, self.hidden)

    def check(self) -> None:
        """One launch: results, what it wrote to the cache, and what it must not have touched."""
        given, wide = self.given, widened(self.given)
        before = given.kv.clone()
        logits, hidden = reference(*vars(wide).values())
        self.run()
        tolerance = TOLERANCE_OF_A_LAYER * len(given.stack.layers) ** 0.5
        assert error(self.logits, logits) < tolerance
        assert error(self.hidden, hidden) < tolerance
        written = given.rows.kv_slots
        assert error(given.kv[:, :, written].flatten(3), wide.kv[:, :, written].flatten(3)) < tolerance
        before[:, :, written] = given.kv[:, :, written]
        assert torch.equal(before.view(torch.int16), given.kv.view(torch.int16)), "another place of the cache changed"
        self.check_emptied()

    def check_repeated(self) -> None:
        """Once more: the same bits as in the launch before."""
        given = self.given
        written = given.rows.kv_slots
        first = self.logits.clone(), self.hidden.clone(), given.kv[:, :, written].clone()
        self.logits.fill_(float("nan"))
        self.run()
        again = self.logits, self.hidden, given.kv[:, :, written]
        assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))

    def check_emptied(self) -> None:
        """Nothing is left of what was handed over but the newest launch's last output, where the next one expects it:
        whoever takes a word for another launch's own can only find it there.
        """
        rows = len(self.given.x)
        for size in self.made._sizes.values():
            for name, tensor in size.handed_over.items():
                full = (tensor.view(torch.int32) != cuda.EMPTY).any(dim=-1)
                whole = (tensor.view(torch.int32) != cuda.EMPTY).all(dim=-1)
                expected = torch.zeros_like(full)
                if name.startswith("out"):
                    expected[len(self.given.stack.layers) - int(size.launches) % 2, :rows] = True
                assert torch.equal(full, expected), f"{name} is not as the next launch needs it"
                assert torch.equal(whole, expected), f"{name} has gaps"


def compare(case: Case, device: torch.device | str, dtype: torch.dtype, seed: int = 0) -> None:
    """Raises AssertionError where a pass is off: on a CPU in the emulator, in the order of `seed`, and on a GPU twice.

    There is no pass in another dtype than bfloat16, and callers must be told so.
    """
    where = torch.device(device)
    if dtype != torch.bfloat16:
        assert unsupported(shape_of(case.geometry), len(case.positions), case.block_size, dtype, where)
        return
    # Toys have too little for each of a whole GPU's blocks.
    whole = where.type == "cuda" and case.geometry not in (TOY, LONG, WIDE)
    trial = Trial.on(cases.inputs(case, device, dtype), None if whole else machine_of(case), seed)
    trial.check()
    if where.type == "cuda":
        trial.check_repeated()


def machine_of(case: Case) -> Machine:
    """What the emulator stands for, and all that toys take of a GPU."""
    if case.geometry in (TOY, LONG):
        return FEW_BLOCKS
    return SOME_BLOCKS if case.geometry is WIDE else replace(H200, blocks=SOME_BLOCKS.blocks)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("case", cases.SMALL, ids=lambda case: case.name)
def test_a_pass_gives_the_formula_in_any_order(case: Case, seed: int) -> None:
    """Red when a column, a term, a row or a position is left out or taken for another, when weights are used before
    they are there or overwritten before they are used, when a norm or a residual is missing, or when what was handed
    over is left behind. The emulator fails a load or store outside of what the pass was given, and an order in which
    nobody goes on.
    """
    compare(case, "cpu", torch.bfloat16, seed)


@pytest.mark.parametrize("seed", [0, 1])
def test_blocks_that_have_no_column_of_a_product_stay_out_of_it(seed: int) -> None:
    """Red when a block without a column of the residual stream reads what leads to one, which may be emptied before it
    comes, or when its ring falls out of step.
    """
    Trial.on(cases.inputs(Case(WIDE, mixed(2, 15)), "cpu", torch.bfloat16), MANY_BLOCKS, seed).check()


def test_launches_follow_each_other() -> None:
    """Other rows, other numbers of rows in the same memory, the same rows again. Red when a launch leaves behind what
    the next one takes for its own, or does not know its number.
    """
    trial = Trial.on(cases.inputs(Case(TOY, mixed(8, 15)), "cpu", torch.bfloat16), FEW_BLOCKS, seed=3)
    whole = trial.given, trial.logits, trial.hidden
    for rows, seed in ((8, 4), (2, 5), (2, 6), (8, 7), (5, 8)):
        given, logits, hidden = whole
        part = {name: getattr(given.rows, name)[:rows] for name in ("slots", "positions", "kv_slots")}
        trial.given = replace(given, x=torch.randn(rows, TOY.width).bfloat16(), rows=replace(given.rows, **part))
        trial.logits, trial.hidden = logits[:rows].fill_(float("nan")), hidden[:rows].fill_(float("nan"))
        assert trial.emulator is not None
        trial.emulator.seed = seed
        trial.emulator.memory.append(trial.given)
        trial.check()


def some_rows(given: Inputs, rows: slice) -> Inputs:
    """The same slots and cache, of which others have no row."""
    part = {name: getattr(given.rows, name)[rows] for name in ("slots", "positions", "kv_slots")}
    return replace(given, x=given.x[rows].clone(), rows=replace(given.rows, **part), kv=given.kv.clone())


def test_a_row_does_not_know_who_else_is_there() -> None:
    """Four of eight rows, on another number of blocks, bit by bit. Red when the order of a sum depends on how many rows
    there are of a class, on where a row stands in it, or on who computes a column.
    """
    given = cases.inputs(Case(TOY, mixed(8, 15)), "cpu", torch.bfloat16)
    whole, part = Trial.on(given, FEW_BLOCKS), Trial.on(some_rows(given, slice(3, 7)), SOME_BLOCKS, seed=1)
    whole.run()
    part.run()
    assert torch.equal(part.logits, whole.logits[3:7])
    assert torch.equal(part.hidden, whole.hidden[3:7])


@pytest.mark.parametrize("rows", [3, 12, 16])
def test_a_broken_row_is_alone(rows: int) -> None:
    """NaN in a row. Red when one reaches another row, or gets lost."""
    given = cases.inputs(Case(TOY, mixed(rows, 7)), "cpu", torch.bfloat16)
    sound = Trial.on(replace(given, kv=given.kv.clone()), FEW_BLOCKS)
    broken = Trial.on(replace(given, x=given.x.clone(), kv=given.kv.clone()), FEW_BLOCKS, seed=1)
    broken.given.x[1, 5] = float("nan")
    sound.run()
    broken.run()
    others = [row for row in range(rows) if row != 1]
    assert torch.equal(broken.logits[others], sound.logits[others])
    assert torch.equal(broken.hidden[others], sound.hidden[others])
    assert broken.logits[1].isnan().all()
    assert broken.hidden[1].isnan().all()
    broken.check_emptied()


def test_hidden_states_are_left_alone_unless_asked_for() -> None:
    """Red when a pass without a place for them writes them, or needs one for its logits."""
    given = cases.inputs(Case(TOY, mixed(3, 7)), "cpu", torch.bfloat16)
    trial = Trial.on(given, FEW_BLOCKS)
    trial.made.run(given.x, given.head, given.rows, trial.logits)
    assert trial.logits.isfinite().all()
    assert trial.hidden.isnan().all()


FEW_ROWS = Case(TOY, mixed(3, 7))


@dataclass(frozen=True)
class Break:
    """Another text in place of one in the source, and what to run then."""

    before: str
    after: str
    case: Case = FEW_ROWS
    machine: Machine = FEW_BLOCKS


BREAKS = {
    "rows are not waited for": Break("        else await_rows(a, x, K, unit);\n", ""),
    "rows are taken when half of them are there": Break(
        "return v.x == EMPTY || v.y == EMPTY || v.z == EMPTY || v.w == EMPTY;", "return v.x == EMPTY;"
    ),
    "attention does not wait": Break("        } while (missing);\n", "        } while (false);\n"),
    "attention waits for values alone": Break("missing = missing || w[i] == EMPTY;", ";"),
    "memory is emptied before all have read it": Break(
        "            clear(packed, rows * QKV * 2);\n",
        "            clear(packed, rows * QKV * 2);\n            clear(middle, rows * D * 2);\n",
    ),
    "memory is not emptied": Break("            clear(attended, rows * H * E * 2);\n", ""),
    "squares are not emptied": Break("clear(last_squares, rows * (D / 8) * 4);", ";"),
    "a launch empties its own output": Break(
        "pass.out + (size_t)(NUM_LAYERS - launch % 2)", "pass.out + (size_t)(NUM_LAYERS - 1 + launch % 2)"
    ),
    "a block without columns reads": Break(
        "        if (writes_residual && blockIdx.x >= D / 8) continue;\n", "", Case(WIDE, mixed(2, 15)), MANY_BLOCKS
    ),
    "a launch takes the place of the one before": Break("st_cg_u32(pass.launches, launch + 1);", ";"),
    "weights are not waited for": Break("    mbarrier_wait(&ring.full[ring.slot], ring.parity);\n", ""),
    "units are given back too soon": Break("    mbarrier_wait(&ring.empty[ring.slot], ring.parity ^ 1);\n", ""),
    "sums are read before all are there": Break("        sync_multipliers();   // the partial sums are there\n", ""),
    "gains are those of another norm": Break("pass.layers[number].post_norm", "pass.layers[number].input_norm"),
    "squares are those of another norm": Break(
        "step == OUTPUT ? middle_squares : out_squares", "step == OUTPUT ? out_squares : middle_squares"
    ),
    "the residual is forgotten": Break("round_bf16(sum.x) + bf16_lo(kept)", "round_bf16(sum.x)"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_broken_is_noticed(name: str, tmp_path: Path) -> None:
    """A line of the source changed: one of a few orders must fail, so the tests above can."""
    one = BREAKS[name]
    text = cuda.SOURCE.read_text()
    assert text.count(one.before) == 1, "the line is not there to be broken"
    shutil.copy(cuda.SOURCE.parent.parent / "device.cuh", tmp_path)
    source = tmp_path / "changed" / cuda.SOURCE.name
    source.parent.mkdir()
    source.write_text(text.replace(one.before, one.after))
    with pytest.raises((AssertionError, RuntimeError)):
        check_some_orders(one.case, one.machine, source)


def test_what_is_sound_is_not() -> None:
    """Red when the check of the test above fails whatever the source says."""
    for one in {(one.case, one.machine) for one in BREAKS.values()}:
        check_some_orders(*one, cuda.SOURCE)


def check_some_orders(case: Case, machine: Machine, source: Path) -> None:
    """Two launches in each."""
    given = cases.inputs(case, "cpu", torch.bfloat16)
    for seed in range(4):
        trial = Trial.on(replace(given, kv=given.kv.clone()), machine, seed, source)
        trial.check()
        trial.given.x[:] = trial.given.x.flip(0)
        trial.check()


def refusal(machine: Machine, rows: int = 1, **changes: int) -> str:
    """Why a shape like the predictor's is not taken; "" if it is."""
    shape = replace(shape_of(PREDICTOR), **changes)
    try:
        Tiling.choose(shape, rows, machine)
    except ValueError as error:
        return str(error)
    return ""


def shape_of(geometry: Geometry) -> Shape:
    g = geometry
    return Shape(g.width, g.inner, 2 * g.kv_heads, g.kv_heads, 128, g.vocabulary, g.layers, g.max_positions)


def test_what_cannot_run_is_refused() -> None:
    """Red when a shape that the source's own assertions reject is compiled, or more is asked of a block than it has."""
    assert refusal(H200) == ""
    assert refusal(H200, rows=MAX_ROWS) == ""
    for rows in (0, MAX_ROWS + 1):
        assert refusal(H200, rows) == f"a pass takes 1 to {MAX_ROWS} rows, not {rows}"
    assert "of width 128" in refusal(H200, head_dim=64)
    assert "of width 128" in refusal(H200, num_heads=8)
    assert "multiples of 256 terms" in refusal(H200, width=1000)
    assert "multiples of 8" in refusal(H200, vocabulary=2050)
    assert "hold 1 units" in refusal(Machine(blocks=132, shared_bytes=64 * 1024))
    small = {"width": 512, "inner": 512, "num_heads": 4, "num_kv_heads": 2, "vocabulary": 1024}
    assert "3 or more column tiles" in refusal(H200, **small)
    few = replace(shape_of(PREDICTOR), vocabulary=512)
    assert Tiling.choose(few, 1, H200).blocks == 64, "blocks without a column of the head"
    assert unsupported(shape_of(PREDICTOR), 1, 16, torch.bfloat16, torch.device("cpu")) is not None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("x", {"x": torch.zeros(1, 128, dtype=torch.bfloat16)}),
        ("x", {"x": torch.zeros(1, TOY.width)}),
        ("x", {"x": torch.zeros(1, 2 * TOY.width, dtype=torch.bfloat16)[:, ::2]}),
        ("head", {"head": torch.zeros(64, TOY.width, dtype=torch.bfloat16)}),
    ],
)
def test_operands_are_checked(name: str, change: dict[str, Any]) -> None:
    """Red when an operand of another size, type or layout goes through: the kernel takes addresses alone."""
    trial = Trial.on(cases.inputs(Case(TOY, (3,)), "cpu", torch.bfloat16), FEW_BLOCKS)
    trial.given = replace(trial.given, **change)
    with pytest.raises(ValueError, match=f"^{name} is contiguous bfloat16"):
        trial.run()


def test_a_chunk_of_positions_is_of_one_page() -> None:
    """Red when a cache is taken whose pages end within sixteen positions, which a warp reads in one stretch."""
    trial = Trial.on(cases.inputs(Case(TOY, (3,), block_size=24), "cpu", torch.bfloat16), FEW_BLOCKS)
    with pytest.raises(ValueError, match="multiples of 16 positions, not of 24"):
        trial.run()


def test_torchs_pass_looks_at_nothing_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph captures it. Red when the baseline attends row by row, as the reference does."""
    work = cases.work(Case(TOY, mixed(3, 7)), "cpu", torch.float32)
    for name in ("tolist", "item", "__int__", "__bool__"):
        monkeypatch.setattr(Tensor, name, lambda self: pytest.fail("a look at the host"))
    work.plain(*work.given)


def test_the_least_work_by_hand() -> None:
    """Red when a weight is forgotten or counted per row, or a whole table is taken for the past."""
    work = cases.work(Case(TOY, (5, 0, 2)), "cpu", torch.bfloat16)
    products = 2 * (1024 * 256 + 256 * 512 + 512 * 256 + 256 * 256) + 256 * 256
    norms = 2 * (2 * 256 + 6 * 128) + 256
    past_and_own, of_a_position = 5 + 0 + 2 + 3, 2 * 2 * 2 * 128
    assert work.num_bytes == 2 * (products + norms + past_and_own * of_a_position + 3 * (256 + 256 + 256))
    assert work.flops == 2 * 3 * products + 2 * 4 * past_and_own * 4 * 128


@pytest.mark.parametrize("capability", [(8, 9), (10, 0), (12, 0)])
def test_other_devices_are_refused(capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a GPU is asked to compile what only Hopper has, or another one than torch's current to launch it."""
    device = torch.device("cuda", 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    reason = unsupported(shape_of(PREDICTOR), 1, 16, torch.bfloat16, device)
    assert reason is not None
    assert f"not {capability[0]}.{capability[1]}" in reason
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert "current device" in (unsupported(shape_of(PREDICTOR), 1, 16, torch.bfloat16, device) or "")
    monkeypatch.setattr(torch.version, "hip", "7.0")
    assert "ROCm" in (unsupported(shape_of(PREDICTOR), 1, 16, torch.bfloat16, device) or "")


@pytest.mark.parametrize("geometry", [PREDICTOR, TALKER, SMALL_TALKER], ids=lambda geometry: geometry.name)
@pytest.mark.parametrize("rows", [8, 16])
def test_released_shapes_compile_for_hopper(geometry: Geometry, rows: int) -> None:
    """Red when a size of the released models breaks an assertion of the source, or is more than the assembler takes."""
    try:
        nvrtc.compiler()
    except RuntimeError as error:
        pytest.skip(str(error))
    shape = shape_of(geometry)
    defines = Tiling.choose(shape, rows, H200).defines(shape)
    assert compile_source(CudaSource.read(cuda.SOURCE, defines), "sm_90a")


@pytest.mark.gpu
@pytest.mark.parametrize("case", cases.RELEASED, ids=lambda case: case.name)
def test_a_pass_gives_the_formula_on_a_gpu(case: Case) -> None:
    """Released sizes, twice: red as in the emulator, when two runs differ in a bit, or a block has less memory than the
    source takes.
    """
    compare(case, "cuda", torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [3, 8, 13, 16])
@pytest.mark.parametrize("geometry", [PREDICTOR, TALKER], ids=lambda geometry: geometry.name)
def test_many_launches_give_the_same_bits_on_a_gpu(geometry: Geometry, rows: int) -> None:
    """Twenty, not waited for in between, on all multiprocessors and on fewer. Red when a result depends on which block,
    warp or copy was faster, which is what a race looks like where the emulator's orders do not reach.
    """
    given = cases.inputs(Case(geometry, mixed(rows, geometry.max_positions - 1)), "cuda", torch.bfloat16)
    logits = torch.empty((40, rows, geometry.vocabulary), dtype=torch.bfloat16, device="cuda")
    hidden = torch.empty((40, rows, geometry.width), dtype=torch.bfloat16, device="cuda")
    for part, reserved in enumerate((0, 16)):
        made = DecoderPass(given.stack, given.kv, len(given.head), reserved=reserved)
        for i in range(20 * part, 20 * part + 20):
            made.run(given.x, given.head, given.rows, logits[i], hidden[i])
    assert logits.isfinite().all()
    assert (logits == logits[0]).all()
    assert (hidden == hidden[0]).all()


@pytest.mark.gpu
def test_passes_in_a_graph_are_passes_on_a_gpu() -> None:
    """A chain in which each takes the hidden states of the one before, eager and captured. Red when a launch begins
    before what it reads is there, or when something of a launch is decided on the host.
    """
    given = cases.inputs(Case(PREDICTOR, mixed(8, 15)), "cuda", torch.bfloat16)
    trial = Trial.on(given)
    x, then = given.x.clone(), torch.empty_like(given.x)

    def chain() -> None:
        trial.made.run(x, given.head, given.rows, trial.logits, then)
        for _ in range(5):
            trial.made.run(then, given.head, given.rows, trial.logits, trial.hidden)
            trial.made.run(trial.hidden, given.head, given.rows, trial.logits, then)

    chain()
    want = trial.logits.clone(), then.clone()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chain()
    for _ in range(3):
        trial.logits.zero_(), then.zero_()
        graph.replay()
        assert torch.equal(trial.logits, want[0])
        assert torch.equal(then, want[1])


@pytest.mark.gpu
def test_a_benchmark_times_the_weights_that_it_gives_on_a_gpu() -> None:
    """A copy whose last norm has twice the gains gives twice the hidden states, to the bit. Red when a launch takes the
    weights that its pass was made with, which are then in the cache.
    """
    work = cases.work(Case(PREDICTOR, mixed(3, 15)), "cuda", torch.bfloat16)
    one, two = work.copies(2)
    two[1].norm.mul_(2)
    hidden, twice = (list(tensors(work.kernel(*given)))[1] for given in (one, two))
    assert hidden.isfinite().all()
    assert torch.equal(twice, 2 * hidden)

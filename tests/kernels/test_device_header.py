"""What `device.cuh` promises, on a device and in the emulator; and that the emulator sees what a device does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.kernels.emulated import EmulatedModule, NotCompiledError
from ttsbench.kernels import nvrtc
from ttsbench.kernels.cuda_source import CudaModule, CudaSource, compile_source

PROBE = Path(__file__).with_name("device_probe.cu")
FAULTS = Path(__file__).with_name("faults.cu")

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def module(device: str) -> CudaModule | EmulatedModule:
    return CudaModule(PROBE) if device == "cuda" else EmulatedModule(PROBE)


@DEVICES
def test_bfloat16_is_rounded_to_the_nearest_even(device: str) -> None:
    """Red when a tie goes up, the halves of a pair are exchanged, or a NaN or an infinity becomes a number."""
    ties = np.arange(0x3F7F8000, 0x3F908000, 0x4000, dtype=np.uint32).view(np.float32)  # halves of a step, and quarters
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-40, -1e-45], np.float32)
    nan = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)  # adding to these overflows
    numbers = np.concatenate([ties, odd, nan, np.random.default_rng(0).normal(size=1001).astype(np.float32)])
    x = torch.from_numpy(np.resize(numbers, len(numbers) // 2 * 2)).to(device)
    packed = torch.empty(len(x) // 2, dtype=torch.int32, device=device)
    rounded = torch.empty_like(x)
    module(device).function("round_pairs").launch((9,), (128,), (x, packed, rounded, len(packed)))
    want = x.cpu().bfloat16()
    torch.testing.assert_close(rounded.cpu(), want.float(), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(packed.cpu().view(torch.bfloat16), want, rtol=0, atol=0, equal_nan=True)


def fragments(a: np.ndarray, b: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Registers [32, 4] and [32, 2] of the lanes, from A [16, 16] and B [16, 8].

    As the PTX manual's section on m16n8k16 gives an element's place by lane and number of the element, a register being
    two of them.
    """
    lanes = np.arange(32)[:, None]
    group, inner = lanes // 4, lanes % 4
    i = np.arange(8)[None, :]
    of_a = a[np.where(i % 4 < 2, group, group + 8), inner * 2 + i % 2 + np.where(i >= 4, 8, 0)]
    i = np.arange(4)[None, :]
    of_b = b[inner * 2 + i % 2 + np.where(i >= 2, 8, 0), group]
    return packed_pairs(of_a), packed_pairs(of_b)


def packed_pairs(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32)).bfloat16().view(torch.int32)


@DEVICES
def test_a_warp_multiplies_as_the_manual_lays_its_registers_out(device: str) -> None:
    """Red when an element of any fragment is taken for another: 16 x 8 products of small integers, all exact."""
    random = np.random.default_rng(1)
    a, b, d = (random.integers(-8, 9, shape) for shape in ((16, 16), (16, 8), (16, 8)))
    registers = [part.to(device) for part in fragments(a, b)]
    lanes, i = np.arange(32)[:, None], np.arange(4)[None, :]
    place = np.where(i < 2, lanes // 4, lanes // 4 + 8), lanes % 4 * 2 + i % 2
    sums = torch.from_numpy(d[place].astype(np.float32)).to(device)
    module(device).function("multiply").launch((1,), (32,), (*registers, sums))
    assert np.array_equal(sums.cpu().numpy(), (a @ b + d)[place])


@DEVICES
def test_pairs_are_two_numbers(device: str) -> None:
    """Red when halves change places, a product is rounded twice, or a sum's product before the sum."""
    a, b, c = (torch.randn(64, generator=torch.Generator().manual_seed(i)).bfloat16() for i in range(3))
    words = [x.view(torch.int32).to(device) for x in (a, b, c)]
    product, total, transposed = (torch.zeros(32, dtype=torch.int32, device=device) for _ in range(3))
    module(device).function("pairs").launch((1,), (32,), (*words, product, total, transposed))
    assert torch.equal(product.cpu().view(torch.bfloat16), a * b)
    exact = a.double() * b.double() + c.double()
    off = (total.cpu().view(torch.bfloat16).double() - exact).abs()
    assert (off <= exact.abs() * 2**-8).all(), "of the nearest, half a step of eight bits"
    assert torch.equal(transposed.cpu().view(torch.bfloat16).view(8, 8), a.view(8, 8).T)


@DEVICES
def test_a_load_that_is_not_wanted_changes_nothing(device: str) -> None:
    """Red when the condition is turned round, or a load without it clears what was there."""
    x, y = torch.arange(32, dtype=torch.int32).view(8, 4), -torch.ones(8, 4, dtype=torch.int32)
    want = torch.where(torch.arange(8)[:, None] % 2 == 0, x, y)
    got = y.to(device)
    module(device).function("some").launch((1,), (8,), (x.to(device), got))
    assert torch.equal(got.cpu(), want)


@DEVICES
def test_every_load_and_store_moves_its_bytes(device: str) -> None:
    """Red when a load or a store has another width than its name, or its elements change places."""
    x = torch.randint(-(2**31), 2**31 - 1, (16,), dtype=torch.int32).to(device)
    y = torch.zeros_like(x)
    module(device).function("copy").launch((1,), (32,), (x, y))
    assert torch.equal(y, x)


@DEVICES
def test_a_launch_that_waits_follows(device: str) -> None:
    """Red when a launch begins before what it reads is there, or never."""
    x = torch.arange(256.0).to(device)
    kernel = module(device).function("follow")
    for _ in range(5):
        y = torch.zeros_like(x)
        kernel.launch((2,), (128,), (x, y), programmatic=True)
        x = y
    assert torch.equal(x.cpu(), torch.arange(5.0, 261.0))


def test_the_header_is_taken_by_the_assembler_for_hopper() -> None:
    """Red when an instruction is misspelt, or is one that Hopper does not have."""
    try:
        nvrtc.compiler()
    except RuntimeError as error:
        pytest.skip(str(error))
    assert compile_source(CudaSource.read(PROBE, {}), "sm_90a")


def fault(name: str, threads: int, *arguments: torch.Tensor, programmatic: bool = False) -> str:
    kernel = EmulatedModule(FAULTS).function(name)
    with pytest.raises(RuntimeError) as caught:
        kernel.launch((1,), (threads,), arguments, programmatic=programmatic, memory=arguments)
    return str(caught.value)


def test_what_cannot_go_on_says_where_it_stands() -> None:
    """Red when a launch that a GPU would hang in hangs here too, or ends as if all were well."""
    said = fault("missing_lane", 32, torch.zeros(32))
    assert said.endswith("cannot go on: 31 of its threads wait in __shfl_xor_sync, 1 have ended")


def test_lanes_that_meet_in_different_operations_are_refused() -> None:
    """Red when lanes of one warp that have parted are taken to be together."""
    assert "while others of its warp are in" in fault("parted_lanes", 32, torch.zeros(32))


def test_addresses_are_checked() -> None:
    """Red when a vector may be misaligned, or a thread reach beyond the tensors of its launch."""
    x, y = torch.zeros(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    assert fault("misaligned", 1, x, y) == "block (0, 0, 0), thread (0, 0, 0): 16 bytes at a misaligned address"
    assert fault("outside", 1, x, y).endswith("4 bytes outside the memory of this launch")


def test_every_thread_of_a_dependent_launch_waits_before_it_stores() -> None:
    """Red when a wait that only others have reached counts for a thread, or one behind the store does; and when a
    launch that follows in order is asked to wait.
    """
    numbers, words = torch.zeros(32), torch.zeros(32, dtype=torch.int32)
    assert fault("some_wait", 32, numbers, programmatic=True).endswith("thread (0, 0, 0): a thread never waited")
    said = fault("early_store", 32, words, programmatic=True)
    assert said.endswith("thread (0, 0, 0): a thread stored before it had waited")
    assert not words.any()
    for name, y in (("some_wait", numbers), ("early_store", words)):
        EmulatedModule(FAULTS).function(name).launch((1,), (32,), (y,))
        assert y.eq(1).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_missing_barrier_shows(seed: int) -> None:
    """Red when threads see what others of their block write later."""
    x, y = torch.arange(1.0, 65.0), torch.ones(64)
    EmulatedModule(FAULTS).function("no_barrier").launch((1,), (64,), (x, y), seed=seed)
    assert y.eq(0).any()


def test_a_seed_decides_the_order() -> None:
    """Of threads and of blocks. Red when two runs of one seed differ, or seeds do not change who is first."""
    threads, blocks = [], []
    for seed in (0, 5, 5, 6):
        x, y = torch.arange(1.0, 65.0), torch.ones(64)
        EmulatedModule(FAULTS).function("no_barrier").launch((1,), (64,), (x, y), seed=seed)
        threads.append(tuple(y.eq(0).tolist()))
        order, count = torch.zeros(9, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        EmulatedModule(FAULTS).function("arrivals").launch((9,), (1,), (order, count), seed=seed)
        blocks.append(tuple(order.tolist()))
    assert blocks[0] == tuple(range(9))
    for orders in (threads, blocks):
        assert orders[1] == orders[2]
        assert len(set(orders)) == 3


def test_what_does_not_compile_says_why(tmp_path: Path) -> None:
    """Red when the words of g++ are lost."""
    path = tmp_path / "wrong.cu"
    path.write_text('extern "C" __global__ void wrong(int* x) { *x = absent; }\n')
    with pytest.raises(NotCompiledError, match=r"wrong\.cu:(?s:.*)absent"):
        EmulatedModule(path)

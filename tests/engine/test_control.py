"""The control block: arrays of the host that the device sees at the next send, and no earlier."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ttsbench.engine.control import ALIGNMENT, Control, Layout

LAYOUT: Layout = {
    "flags": ((3,), np.bool_),
    "tables": ((2, 5), np.int32),
    "temperatures": ((3,), np.float32),
    "seeds": ((3,), np.int64),
    "after": ((1,), np.int64),
}


def fill(control: Control, step: int) -> None:
    for number, array in enumerate(control.host.values()):
        array[...] = np.arange(array.size).reshape(array.shape) + 7 * number + 100 * step


def read(control: Control) -> dict[str, np.ndarray]:
    return {name: tensor.cpu().numpy() for name, tensor in control.device.items()}


def check(device: str) -> None:
    control = Control(LAYOUT, torch.device(device), ring=3)
    for step in range(8):
        fill(control, step)
        expected = {name: array.copy() for name, array in control.host.items()}
        control.send()
        got = read(control)
        for name, array in expected.items():
            assert got[name].dtype == array.dtype
            assert np.array_equal(got[name], array), name
    addresses = [tensor.data_ptr() for tensor in control.device.values()]
    assert all(address % ALIGNMENT == addresses[0] % ALIGNMENT for address in addresses)


def test_what_the_host_wrote_is_what_the_device_reads() -> None:
    """All dtypes side by side. Red if spans overlap: try an alignment of 1 byte less in `end +=`, or no rounding up."""
    check("cpu")


def test_a_new_block_is_zero() -> None:
    """Whatever its memory held before. Red with `torch.empty`, which this suite fills with ones."""
    assert all(not array.any() for array in Control(LAYOUT, torch.device("cpu"), ring=3).host.values())


@pytest.mark.gpu
def test_what_the_host_wrote_is_what_a_gpu_reads() -> None:
    check("cuda")


@pytest.mark.gpu
def test_the_host_may_write_on_while_a_send_is_under_way() -> None:
    """Three sends are queued behind work that takes long; each step still reads its own block. Red when a send copies
    from the mirror itself, or when the ring has one buffer.
    """
    control = Control(LAYOUT, torch.device("cuda"), ring=3)
    big = torch.randn(4096, 4096, device="cuda")
    seen = []
    torch.cuda.synchronize()
    for step in range(3):
        for _ in range(20):
            big = (big @ big).clamp(-1, 1)
        fill(control, step)
        control.send()
        seen.append(control.device["seeds"].clone())
    fill(control, 99)
    assert [tensor[0].item() for tensor in seen] == [21 + 100 * step for step in range(3)]

"""CUDA C++ without a GPU: the package's .cu files through g++ and `cuda_emulator/`, launched as `CudaKernel` launches.

A module and its kernels have the signatures of `ttsbench.kernels.cuda_source`, so an operation's launcher can be given
either. A kernel reaches inline PTX through `device.cuh` alone. Shared memory begins as zeros in every block.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from ttsbench.kernels.cuda_source import Argument, CudaSource, Parameters, dimensions

HEADERS = Path(__file__).with_name("cuda_emulator")
KERNEL = re.compile(
    r"__global__\s+(?:__launch_bounds__\([^)]*\)\s*)?void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\("
)

# What follows the kernel's own text: an entry point to each kernel.
ENTRY = """
extern "C" const char* emulate_{name}(
    const unsigned* sizes, unsigned seed, bool programmatic, unsigned ranges, const emulator::Range* memory,
    void** values
) {{
    return emulator::launch({name}, sizes, seed, programmatic, ranges, memory, values);
}}
"""


class NotCompiledError(Exception):
    """No RuntimeError, which is what a kernel's own fault is: a source that is broken on purpose must still compile."""


class EmulatedModule:
    """A source compiled for this machine."""

    def __init__(self, source: Path, defines: Mapping[str, int | str] | None = None) -> None:
        if shutil.which("g++") is None:
            pytest.skip("emulating CUDA C++ needs g++")
        self._library = _compiled(source.resolve(), CudaSource.read(source, defines or {}))

    def function(self, name: str) -> EmulatedKernel:
        return EmulatedKernel(getattr(self._library, f"emulate_{name}"))


class EmulatedKernel:
    """One kernel of a module; blocks and threads run in an order that `seed` draws, in order when it is 0."""

    def __init__(self, entry: Any) -> None:
        entry.restype = ctypes.c_char_p
        self._entry = entry

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Argument],
        *,
        programmatic: bool = False,
        seed: int = 0,
        memory: Sequence[torch.Tensor] = (),
    ) -> None:
        """Run the grid to its end; RuntimeError says what a thread did wrong.

        programmatic: a thread that stores before its wait, as far as `device.cuh` stores, or ends without one is wrong.
        memory: tensors that the loads and stores of `device.cuh` may touch; none: addresses are not checked.
        """
        assert all(argument.device.type == "cpu" for argument in arguments if isinstance(argument, torch.Tensor))
        sizes = (ctypes.c_uint * 6)(*dimensions(grid), *dimensions(block))
        bounds = [at for tensor in memory for at in (tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes)]
        ranges = (ctypes.c_void_p * len(bounds))(*bounds)
        parameters = Parameters(arguments)
        failure = self._entry(sizes, seed, ctypes.c_bool(programmatic), len(memory), ranges, parameters.addresses)
        if failure is not None:
            raise RuntimeError(failure.decode())


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in `value`: for `memory`."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from tensors(getattr(value, field.name))


def changed(source: Path, text: str, folder: Path) -> Path:
    """`source` with another text, in `folder` with the headers that it includes."""
    copy = folder / "kernel" / source.name
    copy.parent.mkdir()
    copy.write_text(text)
    for header in re.findall(r'#include "(.+)"', text):
        place = copy.parent / header
        place.parent.mkdir(exist_ok=True)
        shutil.copy(source.parent / header, place)
    return copy


@cache
def _compiled(path: Path, source: CudaSource) -> ctypes.CDLL:
    written = "\n".join((source.text, *(text for _, text in source.headers)))
    text = f'#include "emulator.h"\n#include "{path}"\n'
    text += "".join(ENTRY.format(name=name) for name in KERNEL.findall(written))
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-U_FORTIFY_SOURCE", "-fno-gnu-unique"]
    command += ["-Wl,-Bsymbolic"]  # a kernel may be named like a function of the C library
    command += ["-DTTSBENCH_EMULATED", *(f"-D{name}={value}" for name, value in source.defines), f"-I{HEADERS}"]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "kernel.so")
        command += ["-x", "c++", "-", "-o", str(library)]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        if done.returncode:
            raise NotCompiledError(f"g++ does not compile {path.name}:\n{done.stderr}")
        return ctypes.CDLL(str(library))

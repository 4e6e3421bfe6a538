"""CUDA C++ files of the package: compiled at first use by the compiler torch carries, launched on torch's stream.

For kernels that Triton cannot express; each keeps a Triton path to fall back to. A file may include others by quotes,
with a path from its own folder, and no header of the CUDA toolkit, which need not be installed.

    kernel = compile_for_device(Path(__file__).with_name("saxpy.cu"), {"THREADS": 256}, "saxpy", x.device)
    kernel.launch((blocks,), (256,), (x, y, 2.0, x.numel()))
"""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import torch

from ttsbench.kernels import cuda_driver, nvrtc
from ttsbench.kernels.compilations import compiled

log = logging.getLogger(__name__)

Argument = torch.Tensor | int | float | None | ctypes.Structure
"""What a kernel takes: an address, an int, a float, a null pointer, a struct by value."""


class Kernel(Protocol):
    """A `CudaKernel`, or what stands for one where there is no GPU."""

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Argument],
        *,
        programmatic: bool = False,
    ) -> None: ...


Compile = Callable[[Path, Mapping[str, int | str], str, torch.device], Kernel]
"""The kernel of that name in a source with these macros, for the device of its tensors."""


def compile_for_device(source: Path, defines: Mapping[str, int | str], name: str, device: torch.device) -> Kernel:
    """By the compiler that torch carries, once a process and device for equal arguments."""
    return _compiled(source, tuple(sorted(defines.items())), name, device.index)


@cache
def _compiled(source: Path, defines: tuple[tuple[str, int | str], ...], name: str, device: int) -> Kernel:
    return CudaModule(source, dict(defines), device).function(name)


@cache
def supported(device: torch.device) -> bool:
    """Whether kernels run on `device`, that of a tensor. All take Hopper or newer; Triton's are for other devices."""
    if device.type != "cuda" or torch.version.hip is not None or torch.cuda.get_device_capability(device) < (9, 0):
        return False
    try:
        nvrtc.compiler()
    except RuntimeError as error:
        log.info("%s runs Triton's kernels in place of CUDA's, which are faster: %s", device, error)
        return False
    return True


@dataclass(frozen=True)
class CudaSource:
    """All that the machine code depends on but the architecture and the compiler: equal sources are compiled once."""

    name: str
    text: str
    headers: tuple[tuple[str, str], ...]
    """Name and text of everything included by quotes, at any depth."""
    defines: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, path: Path, defines: Mapping[str, int | str]) -> CudaSource:
        """The file as it is now. An include that is not there is left to the compiler: it may be switched off."""
        text = path.read_text(encoding="utf-8")
        headers: dict[str, str] = {}
        _collect_headers(text, path.parent, headers)
        macros = tuple(sorted((name, str(value)) for name, value in defines.items()))
        return cls(path.name, text, tuple(sorted(headers.items())), macros)


def _collect_headers(text: str, folder: Path, headers: dict[str, str]) -> None:
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE):
        if name not in headers and (folder / name).is_file():
            headers[name] = (folder / name).read_text(encoding="utf-8")
            _collect_headers(headers[name], (folder / name).parent, headers)


class CudaModule:
    """A source compiled for `device`, by default the current one, and loaded there."""

    def __init__(self, source: Path, defines: Mapping[str, int | str] | None = None, device: int | None = None) -> None:
        if not torch.cuda.is_available():
            raise RuntimeError(f"{source.name} needs a CUDA device, and torch finds none")
        self.device = torch.cuda.current_device() if device is None else device
        with cuda_driver.context(self.device):
            self._module = _loaded(CudaSource.read(source, defines or {}), self.device)

    def function(self, name: str) -> CudaKernel:
        """The kernel `extern "C" __global__ void name`."""
        return CudaKernel(self, name, cuda_driver.function(self._module, name))


@cache
def _loaded(source: CudaSource, device: int) -> ctypes.c_void_p:
    """Modules stay until the process ends: captured graphs point to their kernels."""
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(f"{source.name} would be compiled while a graph is captured: launch it once before")
    return cuda_driver.load(_cubin(source, architecture(*torch.cuda.get_device_capability(device))))


@cache
def _cubin(source: CudaSource, target: str) -> bytes:
    cubin = compile_source(source, target)
    compiled()
    return cubin


def compile_source(source: CudaSource, target: str) -> bytes:
    """A cubin for the architecture `target`; needs no GPU, and is not counted."""
    return nvrtc.compile_cubin(source.name, source.text, dict(source.headers), options(source, target))


def architecture(major: int, minor: int) -> str:
    """A device's own machine code; on Hopper with what only Hopper has."""
    return f"sm_{major}{minor}" + ("a" if (major, minor) == (9, 0) else "")


def options(source: CudaSource, target: str) -> list[str]:
    """No fast mathematics: a kernel says itself where it takes an approximation."""
    flags = [f"--gpu-architecture={target}", "-default-device", "--std=c++17"]
    return flags + [f"--define-macro={name}={value}" for name, value in source.defines]


class CudaKernel:
    """One kernel of a module."""

    def __init__(self, module: CudaModule, name: str, handle: ctypes.c_void_p) -> None:
        self.name = name
        self._device = module.device
        self._handle = handle

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Argument],
        *,
        programmatic: bool = False,
    ) -> None:
        """Put one launch on torch's current stream of the device; a graph that is being captured takes it.

        programmatic: may begin before the launch in front of it has ended; the kernel waits with `griddepcontrol.wait`.
        """
        for argument in arguments:
            if isinstance(argument, torch.Tensor) and argument.device != torch.device("cuda", self._device):
                raise ValueError(f"{self.name} runs on cuda:{self._device} and was given a tensor on {argument.device}")
        stream = torch.cuda.current_stream(self._device).cuda_stream
        parameters = Parameters(arguments)
        with cuda_driver.context(self._device):
            cuda_driver.launch(
                self._handle, dimensions(grid), dimensions(block), stream, programmatic, parameters.addresses
            )


def dimensions(sizes: Sequence[int]) -> tuple[int, int, int]:
    """One to three sizes, as x, y, z."""
    if not 1 <= len(sizes) <= 3 or any(size < 1 for size in sizes):
        raise ValueError(f"a grid or a block has one to three positive sizes, not {tuple(sizes)}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


class Parameters:
    """Arguments as a launch reads them: an array of addresses of C values, which live as long as this object."""

    def __init__(self, arguments: Sequence[Argument]) -> None:
        self.values = [_c_value(argument) for argument in arguments]
        self.addresses = (ctypes.c_void_p * len(self.values))(*map(ctypes.addressof, self.values))


def _c_value(argument: Argument) -> ctypes.Structure | ctypes.c_void_p | ctypes.c_int32 | ctypes.c_float:
    if isinstance(argument, torch.Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if argument is None:
        return ctypes.c_void_p(None)
    if isinstance(argument, ctypes.Structure):
        return argument
    if isinstance(argument, float):
        return ctypes.c_float(argument)
    if isinstance(argument, int) and not isinstance(argument, bool) and -(2**31) <= argument < 2**31:
        return ctypes.c_int32(argument)
    raise TypeError(f"a kernel takes tensors, ints of 32 bits, floats, None and ctypes structures, not {argument!r}")

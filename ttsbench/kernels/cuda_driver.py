"""The part of CUDA's driver interface that loading and launching a kernel needs, through ctypes.

https://docs.nvidia.com/cuda/cuda-driver-api
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

PROGRAMMATIC_STREAM_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_...


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: a number, and a union of 64 bytes that begins with the only kind of value used here."""

    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    )


def call(function: str, *arguments: Any) -> None:
    """Call `function` of the driver; what it refuses is a RuntimeError in the driver's words."""
    cuda = driver()
    result = getattr(cuda, function)(*arguments)
    if result != 0:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        cuda.cuGetErrorName(result, ctypes.byref(name))
        cuda.cuGetErrorString(result, ctypes.byref(text))
        said = b" ".join(part for part in (name.value, text.value) if part).decode() or f"error {result}"
        raise RuntimeError(f"{function}: {said}")


@cache
def driver() -> ctypes.CDLL:
    """The driver, as installed with the GPU."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise RuntimeError(f"CUDA kernels need a GPU and its driver, but libcuda.so.1 did not load: {error}") from None


@contextmanager
def context(device: int) -> Iterator[None]:
    """The context that torch uses on `device` is current in this thread, and after it whichever was before.

    Torch takes its current device from the current context: one that stayed would change it unnoticed.
    """
    primary, previous = _primary_context(device), ctypes.c_void_p()
    call("cuCtxGetCurrent", ctypes.byref(previous))
    if previous.value == primary.value:
        yield
        return
    call("cuCtxSetCurrent", primary)
    try:
        yield
    finally:
        call("cuCtxSetCurrent", previous)


@cache
def _primary_context(device: int) -> ctypes.c_void_p:
    """Kept until the process ends, as torch keeps it."""
    torch.cuda.init()  # type: ignore[no-untyped-call]  # and with it the driver
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(handle), device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    return context


def load(cubin: bytes) -> ctypes.c_void_p:
    """A module of the current context."""
    module = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), cubin)
    return module


def function(module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
    """The kernel that the source names `extern "C" __global__ void name`."""
    found = ctypes.c_void_p()
    call("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
    return found


def launch(
    function: ctypes.c_void_p,
    grid: Sequence[int],
    block: Sequence[int],
    stream: int,
    programmatic: bool,
    parameters: ctypes.Array[ctypes.c_void_p],
) -> None:
    """Put one launch on `stream`; `parameters` are addresses, which are read here."""
    switched_on = LaunchAttribute(id=PROGRAMMATIC_STREAM_SERIALIZATION, value=1)
    config = LaunchConfig((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block), stream=stream)
    config.attributes, config.attribute_count = ctypes.pointer(switched_on), int(programmatic)
    call("cuLaunchKernelEx", ctypes.byref(config), function, parameters, None)

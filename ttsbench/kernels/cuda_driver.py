"""The part of CUDA's driver interface that loading and launching a kernel needs, through ctypes.

https://docs.nvidia.com/cuda/cuda-driver-api
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

MAX_DYNAMIC_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
STATIC_SHARED_BYTES, LOCAL_BYTES, REGISTERS = 1, 3, 4  # CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, _LOCAL_..., _NUM_REGS
MULTIPROCESSORS, SHARED_BYTES_OF_A_BLOCK = 16, 97  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, _MAX_SHARED_..._OPTIN
COOPERATIVE, PROGRAMMATIC_STREAM_SERIALIZATION = 2, 6  # CU_LAUNCH_ATTRIBUTE_...


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


def enter_context(device: int) -> None:
    """Make the context that torch uses on `device` current in this thread, if another one is or none."""
    primary, current = _primary_context(device), ctypes.c_void_p()
    call("cuCtxGetCurrent", ctypes.byref(current))
    if current.value != primary.value:
        call("cuCtxSetCurrent", primary)


@cache
def _primary_context(device: int) -> ctypes.c_void_p:
    """Kept until the process ends, as torch keeps it."""
    torch.cuda.init()  # type: ignore[no-untyped-call]  # and with it the driver
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(handle), device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    return context


def device_attribute(device: int, which: int) -> int:
    """One number of a device."""
    _primary_context(device)  # and with it the driver is ready
    handle, value = ctypes.c_int(), ctypes.c_int()
    call("cuDeviceGet", ctypes.byref(handle), device)
    call("cuDeviceGetAttribute", ctypes.byref(value), which, handle)
    return value.value


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


def attribute(function: ctypes.c_void_p, which: int) -> int:
    """One number of a kernel."""
    value = ctypes.c_int()
    call("cuFuncGetAttribute", ctypes.byref(value), which, function)
    return value.value


def blocks_per_multiprocessor(function: ctypes.c_void_p, threads: int, shared_bytes: int) -> int:
    """Blocks that fit on one multiprocessor at a time."""
    blocks = ctypes.c_int()
    call(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        ctypes.byref(blocks),
        function,
        ctypes.c_int(threads),
        ctypes.c_size_t(shared_bytes),
    )
    return blocks.value


def launch(
    function: ctypes.c_void_p,
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int,
    stream: int,
    attributes: Sequence[int],
    parameters: ctypes.Array[ctypes.c_void_p],
) -> None:
    """Put one launch on `stream`, each of `attributes` switched on; `parameters` are addresses, which are read here."""
    switched_on = (LaunchAttribute * len(attributes))(*(LaunchAttribute(id=which, value=1) for which in attributes))
    config = LaunchConfig((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block), shared_bytes, stream)
    config.attributes, config.attribute_count = switched_on, len(attributes)
    call("cuLaunchKernelEx", ctypes.byref(config), function, parameters, None)

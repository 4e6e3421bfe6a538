"""NVIDIA's run-time compiler, which comes with torch's CUDA wheels: CUDA C++ to machine code without a CUDA toolkit.

NVRTC needs no GPU; it gives a cubin for the architecture it is asked for. https://docs.nvidia.com/cuda/nvrtc
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import torch

MAJORS = ("13", "12")
"""Versions of CUDA whose compiler is looked for by name, in this order."""


def compile_cubin(name: str, text: str, headers: Mapping[str, str], options: Sequence[str]) -> bytes:
    """Machine code of the CUDA C++ `text`; `headers` has the text of what it includes, by the name it uses.

    `name` stands in the compiler's messages. Raises RuntimeError with those when the text does not compile.
    """
    nvrtc = compiler()
    program = ctypes.c_void_p()
    names = _strings(headers)
    texts = _strings(headers.values())
    created = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), len(headers), texts, names)
    _check(nvrtc, created, f"NVRTC does not take {name}")
    try:
        result = nvrtc.nvrtcCompileProgram(program, len(options), _strings(options))
        log = _output(nvrtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
        _check(nvrtc, result, f"{name} does not compile with {' '.join(options)}", log)
        return _output(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _output(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"no {what}")
    data = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, data), f"no {what}")
    return data.raw


def _check(nvrtc: ctypes.CDLL, result: int, what: str, log: str = "") -> None:
    if result != 0:
        reason = nvrtc.nvrtcGetErrorString(result).decode()
        raise RuntimeError(f"{what}: {reason}" + (f"\n{log}" if log else ""))


def _strings(texts: Iterable[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded)


@cache
def compiler() -> ctypes.CDLL:
    """The compiler: the one torch has loaded, else one of an installed package, else one that the loader finds."""
    tried = []
    for candidate in _candidates():
        try:
            return _loaded(candidate)
        except OSError as error:
            tried.append(f"{candidate} ({error})")
    raise RuntimeError(
        "no NVRTC, which compiles the CUDA kernels, could be loaded: expected libnvrtc.so.13 or libnvrtc.so.12 of "
        f"the package nvidia-cuda-nvrtc, as torch's CUDA builds bring it; tried {', '.join(tried)}"
    )


def _candidates() -> Iterator[str]:
    yield from _in_this_process()
    yield from _in_packages()
    yield from (f"libnvrtc.so.{major}" for major in MAJORS)
    yield "libnvrtc.so"


def _in_this_process() -> list[str]:
    maps = Path("/proc/self/maps")
    text = maps.read_text(errors="replace") if maps.exists() else ""
    return sorted(set(re.findall(r"/\S.*/libnvrtc\.so\.[\d.]+$", text, re.MULTILINE)))


def _in_packages() -> list[str]:
    """Of the CUDA that torch was built with first: the others may be newer than the driver can take."""
    namespace = importlib.util.find_spec("nvidia")
    folders = list(namespace.submodule_search_locations or ()) if namespace else []
    found = [path for folder in folders for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*"))]
    major = (torch.version.cuda or "").split(".")[0]
    return [str(path) for path in sorted(found, key=lambda path: path.suffix != f".{major}")]


def _loaded(candidate: str) -> ctypes.CDLL:
    """The library, and before it the one it opens by name alone, which the loader need not find by itself."""
    if "/" in candidate:
        for builtins in sorted(Path(candidate).parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(builtins))
    nvrtc = ctypes.CDLL(candidate)
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    return nvrtc

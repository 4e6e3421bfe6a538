"""CUDA C++ of the package: what is compiled, what a launch passes, and, on a GPU, that both work."""

from __future__ import annotations

import ctypes
import logging
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ttsbench.kernels import cuda_driver, cuda_source, nvrtc
from ttsbench.kernels.compilations import compilations
from ttsbench.kernels.cuda_source import (
    CudaKernel,
    CudaModule,
    CudaSource,
    Parameters,
    architecture,
    compile_for_device,
    compile_source,
    dimensions,
    options,
    supported,
)

SAXPY = Path(__file__).with_name("saxpy.cu")


class Range(ctypes.Structure):
    _fields_ = (("first", ctypes.c_int), ("count", ctypes.c_int))


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.cuh").write_text(text)
    return folder / "main.cuh"


def test_a_source_has_the_text_of_its_headers_at_any_depth(tmp_path: Path) -> None:
    """Red when a change of a header, or of a header's header, gives an equal source: stale machine code would run."""
    path = write(tmp_path, main='#include "a.cuh"\n', a='  # include "b.cuh"\n', b="int b;\n")
    before = CudaSource.read(path, {})
    assert dict(before.headers) == {"a.cuh": '  # include "b.cuh"\n', "b.cuh": "int b;\n"}
    write(tmp_path, b="int c;\n")
    assert CudaSource.read(path, {}) != before


def test_sources_are_equal_when_text_and_macros_are(tmp_path: Path) -> None:
    """Red when the order of the macros counts, or a value of one does not."""
    path = write(tmp_path, main="")
    first = CudaSource.read(path, {"A": 1, "B": "x"})
    assert first == CudaSource.read(path, {"B": "x", "A": 1})
    assert first != CudaSource.read(path, {"A": 2, "B": "x"})


def test_headers_that_include_each_other_end(tmp_path: Path) -> None:
    """Red when a header already read is read again (RecursionError), or a missing one is an error here."""
    path = write(tmp_path, main='#include "a.cuh"\n#include "missing.cuh"\n', a='#include "main.cuh"\n')
    assert [name for name, _ in CudaSource.read(path, {}).headers] == ["a.cuh", "main.cuh"]


def test_the_compiler_is_asked_for_the_devices_own_code() -> None:
    """Red when Hopper loses its own instructions, another device gets them, or a macro its value."""
    assert [architecture(9, 0), architecture(8, 9), architecture(12, 0)] == ["sm_90a", "sm_89", "sm_120"]
    asked = options(CudaSource.read(SAXPY, {"SCALE": 3}), "sm_90a")
    assert {"--gpu-architecture=sm_90a", "--define-macro=SCALE=3"} <= set(asked)


def test_arguments_become_the_c_values_a_kernel_reads() -> None:
    """Red when an argument has another size or value than the kernel's parameter."""
    tensor = torch.zeros(3)
    parameters = Parameters((tensor, None, -7, 0.5, Range(2, 5)))

    def read(index: int, kind: Any) -> Any:
        return kind.from_address(parameters.addresses[index] or 0)

    assert read(0, ctypes.c_uint64).value == tensor.data_ptr()
    assert read(1, ctypes.c_uint64).value == 0
    assert read(2, ctypes.c_int32).value == -7
    assert read(3, ctypes.c_float).value == 0.5
    assert (read(4, Range).first, read(4, Range).count) == (2, 5)


@pytest.mark.parametrize("argument", [2**31, -(2**31) - 1, True, "x", [1]])
def test_an_argument_without_a_c_value_is_refused(argument: object) -> None:
    """Red when an int is cut to 32 bits in silence, or a bool passes for one."""
    with pytest.raises(TypeError, match="a kernel takes"):
        Parameters((argument,))  # type: ignore[arg-type]


def test_a_grid_has_one_to_three_sizes() -> None:
    """Red when missing sizes are not one, or a wrong number of them passes."""
    assert (dimensions((5,)), dimensions((5, 2)), dimensions((5, 2, 3))) == ((5, 1, 1), (5, 2, 1), (5, 2, 3))
    for wrong in ((), (1, 1, 1, 1), (0,)):
        with pytest.raises(ValueError, match="one to three positive sizes"):
            dimensions(wrong)


def test_structures_have_the_layout_of_cudas_header() -> None:
    """Red when a field is lost or moves; the numbers are those of cuda.h under a compiler for 64 bits."""
    assert ctypes.sizeof(cuda_driver.LaunchAttribute) == 72
    assert cuda_driver.LaunchAttribute.value.offset == 8
    assert ctypes.sizeof(cuda_driver.LaunchConfig) == 56
    assert cuda_driver.LaunchConfig.stream.offset == 32


def test_without_a_gpu_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a module without a device fails later, in the driver's words."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match=r"saxpy\.cu needs a CUDA device"):
        CudaModule(SAXPY)


@pytest.fixture
def hoppers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two GPUs, of which the first is current, and a compiler; nothing of them stays in a cache."""
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(nvrtc, "compiler", lambda: None)
    caches = supported, cuda_source._compiled
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def test_a_missing_compiler_is_said_once_a_device(
    hoppers: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Red when a GPU falls back to Triton's kernels in silence, or each launch says so anew."""

    def compiler() -> None:
        raise RuntimeError("no NVRTC: tried libnvrtc.so.0")

    monkeypatch.setattr(nvrtc, "compiler", compiler)
    devices = [torch.device("cuda", index) for index in (0, 1)]
    with caplog.at_level(logging.INFO, cuda_source.__name__):
        assert not any(supported(device) for device in devices * 3)
    said = [record.getMessage() for record in caplog.records]
    assert [line.split()[0] for line in said] == ["cuda:0", "cuda:1"]
    assert all(line.endswith("no NVRTC: tried libnvrtc.so.0") for line in said)


def test_the_tensors_device_counts_and_not_the_current_one(hoppers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a kernel is refused for a device that is not current, compiled for the current one instead, or shared
    between two.
    """
    loaded = []

    class Module:
        def __init__(self, source: Path, defines: dict[str, int | str], device: int) -> None:
            loaded.append(device)

        def function(self, name: str) -> object:
            return object()

    monkeypatch.setattr(cuda_source, "CudaModule", Module)
    devices = [torch.device("cuda", index) for index in (1, 0, 1)]
    assert all(supported(device) for device in devices)
    first, second, third = (compile_for_device(SAXPY, {"SCALE": 1}, "saxpy", device) for device in devices)
    assert loaded == [1, 0]
    assert first is third
    assert first is not second


@pytest.mark.parametrize("current", [None, 100, 101])
def test_a_devices_context_is_current_only_inside(current: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an error. Red when work for one device leaves a thread on it: torch would go on there."""
    state = [current]

    def call(function: str, argument: Any) -> None:
        if function == "cuCtxGetCurrent":
            argument._obj.value = state[0]
        else:
            assert function == "cuCtxSetCurrent"
            state[0] = argument.value

    monkeypatch.setattr(cuda_driver, "call", call)
    monkeypatch.setattr(cuda_driver, "_primary_context", lambda device: ctypes.c_void_p(100 + device))

    def fail_inside() -> None:
        with cuda_driver.context(1):
            raise ZeroDivisionError(state[0])

    with pytest.raises(ZeroDivisionError, match="101"):
        fail_inside()
    assert state == [current]


def test_without_nvrtc_the_message_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the compiler's absence is reported without the names that were looked for."""
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter(["libnvrtc.so.0", "/nowhere/libnvrtc.so.13"]))
    nvrtc.compiler.cache_clear()
    try:
        with pytest.raises(RuntimeError, match=r"nvidia-cuda-nvrtc.*libnvrtc\.so\.0.*/nowhere/libnvrtc\.so\.13"):
            nvrtc.compiler()
    finally:
        nvrtc.compiler.cache_clear()


def test_packages_with_the_compiler_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a wheel's folder is missed, its companions pass for it, or a newer CUDA stands before torch's own."""
    for name in ("cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12", "cu13/lib/libnvrtc-builtins.so.13.0"):
        path = tmp_path / "nvidia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "nvidia" / "__init__.py").touch()  # some wheels have one, and such a package hides folders without
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    found = [path for path in nvrtc._in_packages() if path.startswith(str(tmp_path))]
    names = [str(Path(path).relative_to(tmp_path / "nvidia")) for path in found]
    assert names == ["cuda_nvrtc/lib/libnvrtc.so.12", "cu13/lib/libnvrtc.so.13"]


@pytest.fixture
def compiler() -> None:
    """NVRTC needs no GPU: where it is installed, these tests compile."""
    try:
        nvrtc.compiler()
    except RuntimeError as error:
        pytest.skip(str(error))


def test_a_source_becomes_machine_code(compiler: None) -> None:
    """Red when macros do not reach the compiler, or what comes back is not a cubin, which is an ELF file."""
    source = CudaSource.read(SAXPY, {"SCALE": 1})
    assert compile_source(source, "sm_90a").startswith(b"\x7fELF")


def test_an_error_shows_the_compilers_words(compiler: None) -> None:
    """Red when the log is lost: without SCALE the file does not compile."""
    source = CudaSource.read(SAXPY, {})
    with pytest.raises(RuntimeError, match=r'saxpy\.cu does not compile.*(?s:.*)identifier "SCALE" is undefined'):
        compile_source(source, "sm_90a")


def test_headers_reach_the_compiler(compiler: None, tmp_path: Path) -> None:
    """Red when included texts are not handed over: the compiler does not look into folders."""
    path = write(tmp_path, main='#include "a.cuh"\n', a="__device__ int a() { return 1; }\n")
    source = CudaSource.read(path, {})
    assert compile_source(source, "sm_90a")
    with pytest.raises(RuntimeError, match=r"a\.cuh"):
        compile_source(replace(source, headers=()), "sm_90a")


def saxpy(scale: int) -> CudaKernel:
    return CudaModule(SAXPY, {"SCALE": scale}).function("saxpy")


@pytest.mark.gpu
@pytest.mark.parametrize("programmatic", [False, True])
def test_a_launch_computes_on_the_current_stream(programmatic: bool) -> None:
    """Red when an argument or the macro arrives wrong, or the launch does not follow what its stream has queued."""
    kernel = saxpy(3)
    with torch.cuda.stream(torch.cuda.Stream()):
        x = torch.arange(1000.0, device="cuda")
        y = torch.ones(1000, device="cuda")
        torch.cuda._sleep(10_000_000)
        y += 1
        for _ in range(2):
            kernel.launch((8,), (128,), (x, y, 0.5, Range(10, 980)), programmatic=programmatic)
        got = y.cpu()
    want = torch.full((1000,), 2.0)
    want[10:990] += 3 * torch.arange(10.0, 990.0)
    assert torch.equal(got, want)


@pytest.mark.gpu
@pytest.mark.parametrize("programmatic", [False, True])
def test_a_graph_takes_launches(programmatic: bool) -> None:
    """Red when a launch runs beside the capture, or its arguments are read at replay, when they are gone."""
    kernel = saxpy(1)
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            kernel.launch((8,), (128,), (x, y, 1.0, Range(0, 1000)), programmatic=programmatic)
    assert torch.equal(y.cpu(), torch.zeros(1000))
    for _ in range(2):
        graph.replay()
    assert torch.equal(y.cpu(), torch.full((1000,), 6.0))


@pytest.mark.gpu
def test_a_thread_without_a_context_gets_torchs() -> None:
    """Red when a launch counts on CUDA's context being current: a new thread has none."""
    from concurrent.futures import ThreadPoolExecutor

    kernel = saxpy(1)
    x, y = torch.ones(100, device="cuda"), torch.zeros(100, device="cuda")
    torch.cuda.synchronize()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(kernel.launch, (1,), (128,), (x, y, 1.0, Range(0, 100))).result()
    torch.cuda.synchronize()
    assert torch.equal(y, x)


@pytest.mark.gpu
def test_a_kernel_runs_on_a_device_that_is_not_current() -> None:
    """On the stream that is current there. Red when it is loaded or launched on the current device, or leaves it."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two devices")
    device = torch.device("cuda", 1)
    with torch.cuda.device(0):
        x, y = torch.ones(100, device=device), torch.zeros(100, device=device)
        torch.cuda.synchronize(device)
        with torch.cuda.stream(torch.cuda.Stream(device)), torch.cuda.device(0):
            kernel = compile_for_device(SAXPY, {"SCALE": 1}, "saxpy", device)
            kernel.launch((1,), (128,), (x, y, 1.0, Range(0, 100)))
        assert torch.cuda.current_device() == 0
        torch.cuda.synchronize(device)
        assert torch.equal(y, x)


@pytest.mark.gpu
def test_a_compilation_is_counted_once(tmp_path: Path) -> None:
    """Red when equal sources are compiled again, a new one is not counted, or one may compile within a capture."""
    path = Path(shutil.copy(SAXPY, tmp_path / "counted.cu"))
    before = compilations()
    CudaModule(path, {"SCALE": 1})
    CudaModule(path, {"SCALE": 1})
    assert compilations() == before + 1
    CudaModule(path, {"SCALE": 2})
    assert compilations() == before + 2
    with pytest.raises(RuntimeError, match="while a graph is captured"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        CudaModule(path, {"SCALE": 3})


@pytest.mark.gpu
def test_the_drivers_refusal_is_an_error_in_its_words() -> None:
    """Red when a launch that the driver refuses passes in silence, or without its reason."""
    with pytest.raises(RuntimeError, match="cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"):
        CudaModule(SAXPY, {"SCALE": 1}).function("absent")
    with pytest.raises(RuntimeError, match="cuLaunchKernelEx: CUDA_ERROR_INVALID_VALUE"):
        saxpy(1).launch((1,), (2048,), (None, None, 1.0, Range(0, 0)))
    with pytest.raises(ValueError, match="a tensor on cpu"):
        saxpy(1).launch((1,), (32,), (torch.zeros(1), None, 1.0, Range(0, 0)))

"""What a kernel is tried on: inputs on a device, what judges the result, and what torch needs for the same.

The judge is the operation's reference in float64 on the same inputs; the torch baseline is the same reference in
bfloat16 on the device, where it runs without the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

BFLOAT16 = torch.bfloat16
BYTES = 2
"""Of a bfloat16."""
TOLERANCE = 2e-2
"""Of the largest output: bfloat16 rounds by 2^-9, up to four times on the way."""


class Run(Protocol):
    """The kernel on its inputs; options are the kernel's own."""

    def __call__(self, **options: object) -> object: ...


@dataclass(frozen=True)
class Trial:
    """One set of inputs on the device: the kernel on it, how far it is off, and what torch has for it."""

    run: Run
    error: Callable[..., float]
    """Options of the kernel -> largest error by the largest output."""
    baseline: Callable[[], object] | None = None


Make = Callable[[int, str], Trial]
"""Seed and device -> inputs."""


@dataclass(frozen=True)
class Job:
    """A kernel at one shape."""

    name: str
    make: Make
    num_bytes: int
    """That must be read and written."""
    flops: float


Outputs = Callable[[Any, tuple[Any, ...]], Sequence[Tensor]]
"""Result and arguments of an operation -> what it has computed."""


def off_by(got: Tensor, want: Tensor) -> float:
    """Largest difference by the largest value; NaN where there is one."""
    return float((got.double() - want.double()).abs().max() / want.double().abs().max().clamp(min=1e-30))


def copied(value: Any, dtype: torch.dtype | None = None) -> Any:
    """A copy of tensors, and of tuples and dataclasses of them; floating ones as `dtype`, if given."""
    if isinstance(value, Tensor):
        return value.to(dtype) if dtype is not None and value.is_floating_point() else value.clone()
    if isinstance(value, tuple):
        return tuple(copied(entry, dtype) for entry in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: copied(getattr(value, f.name), dtype) for f in fields(value) if f.init})
    return value


def trial(
    kernel: Callable[..., Any], reference: Callable[..., Any], arguments: tuple[Any, ...], outputs: Outputs,
    baseline: bool = True,
) -> Trial:  # fmt: skip
    """Of an operation that both take with the same arguments; some of these may be written."""
    wide, plain = copied(arguments, torch.float64), copied(arguments)
    want = outputs(reference(*wide), wide)

    def error(**options: object) -> float:
        result = kernel(*arguments, **options)
        return max(off_by(*pair) for pair in zip(outputs(result, arguments), want, strict=True))

    return Trial(
        lambda **options: kernel(*arguments, **options), error, (lambda: reference(*plain)) if baseline else None
    )


def only(result: Tensor, arguments: tuple[Any, ...]) -> Sequence[Tensor]:
    """Outputs of an operation that returns one tensor and writes none."""
    return [result]


def noise(seed: int, device: str) -> Callable[..., Tensor]:
    """Sizes -> normal numbers in bfloat16, made on the device."""
    generator = torch.Generator(device).manual_seed(seed)
    return lambda *shape: torch.randn(shape, generator=generator, device=device).to(BFLOAT16)

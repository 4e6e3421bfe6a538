"""What a benchmark has to know of an operation: how a folder of this room joins `scripts/bench_kernels.py`.

Its `cases.py` offers

    SMALL                       odd little cases, checked and not timed
    released(rows, sizes)       what one step of `rows` sequences of a released model asks of it; may be nothing
    work(case, device, dtype)   the `Work` of a case; on a CPU its kernel may be the reference

and `tests/kernels/test_<op>.py` offers

    compare(case, device, dtype)   raises AssertionError where the kernel is off; the only home of the tolerance

Nothing is registered: whichever folder has a `cases.py` is found. A test holds every folder to this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sizes:
    """What differs between the released models; heads, code predictor and codec are those of both."""

    width: int
    """Of the talker."""
    inner: int
    """Of the talker's MLP."""


RELEASED = {"1.7b": Sizes(2048, 6144), "0.6b": Sizes(1024, 3072)}
LARGE = RELEASED["1.7b"]

PREDICTOR = Sizes(1024, 3072)
"""The code predictor's, in both."""


class Named(Protocol):
    """A case, whatever else it holds."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class Work:
    """One case, ready to run, and the least that any implementation moves and computes for it."""

    kernel: Callable[..., object]
    plain: Callable[..., object]
    """The same by torch's own operations, with no look at a value on the host: a graph can capture it."""
    given: tuple[Any, ...]
    """Arguments of both."""
    cold: tuple[Tensor | None, ...]
    """Those tensors among the arguments that a step finds in memory and not in a cache: weights, states, tables. The
    rest has just been written by the kernel before."""
    num_bytes: float
    """Every input read once, every output written once."""
    flops: float = 0
    is_librarys: bool = False
    """Whether the operation leaves this case to torch's own kernels: then there is none of ours to time."""

    def copies(self, count: int) -> list[tuple[Any, ...]]:
        """`given` so many times: cold tensors anew each time, all others shared."""
        cold = {id(tensor) for tensor in self.cold if tensor is not None}
        return [self.given, *(_renewed(self.given, cold) for _ in range(count - 1))]


class Cases(Protocol):
    """A `cases.py`."""

    @property
    def SMALL(self) -> Sequence[Any]: ...  # noqa: N802, as the modules spell it

    def released(self, rows: int, sizes: Sizes) -> Sequence[Any]: ...

    def work(self, case: Any, device: torch.device | str, dtype: torch.dtype) -> Work: ...


def nbytes(*tensors: Tensor | None) -> int:
    """Bytes of whole tensors; None has none."""
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def over(rows: Iterable[int], released: Callable[[int, Sizes], Sequence[Any]]) -> tuple[Any, ...]:
    """The large model's cases of several sizes, each once."""
    return tuple(dict.fromkeys(case for count in rows for case in released(count, LARGE)))


def _renewed(value: Any, cold: set[int]) -> Any:
    """`value` with clones of the tensors in `cold`, found inside tuples and dataclasses; itself if it has none."""
    if isinstance(value, Tensor):
        return value.clone() if id(value) in cold else value
    if isinstance(value, tuple):
        return tuple(_renewed(part, cold) for part in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    renewed = {name: _renewed(part, cold) for name, part in parts.items()}
    return value if all(renewed[name] is part for name, part in parts.items()) else replace(value, **renewed)

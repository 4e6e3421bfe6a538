"""What every test runs under: one thread, fixed seeds, poisoned memory, gpu tests only where there is a GPU."""

from __future__ import annotations

import os

# Before torch and CTranslate2 are imported: workers share the cores, and spare threads only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

try:
    import hypothesis
except ModuleNotFoundError:  # a machine that is there for its GPU may have torch, numpy, safetensors and pytest alone
    HAS_HYPOTHESIS = False
else:
    HAS_HYPOTHESIS = True

torch.set_num_threads(1)

# A device context lists torch's constructors on its first use. That must not be inside a test, where `poisoned_memory`
# stands in for them: "meta" tensors would then take real memory.
with torch.device("meta"):
    torch.empty(0)

# No test is timed. In CI the examples are a function of the test alone, so a red run is red again on the next machine.
if HAS_HYPOTHESIS:
    hypothesis.settings.register_profile("house", deadline=None, derandomize="CI" in os.environ, print_blob=True)
    hypothesis.settings.load_profile("house")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without Hypothesis, files that need it are left out; no test of a GPU does."""
    if HAS_HYPOTHESIS or collection_path.suffix != ".py":
        return None
    return "from hypothesis import" in collection_path.read_text() or None


def pytest_report_header() -> str | None:
    return None if HAS_HYPOTHESIS else "Hypothesis is not installed: property tests are left out"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory from torch.empty and its kin holds NaN, or the largest integer: forgetting to write it cannot pass.

    torch's own switch for this works only under deterministic algorithms, which would hide the very differences that
    the determinism tests look for.
    """
    for owner, name in [(torch, "empty"), (torch, "empty_like"), (torch, "empty_strided"), (torch.Tensor, "new_empty")]:
        monkeypatch.setattr(owner, name, _poisoned(getattr(owner, name)))


def _poisoned(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def poisoned(*args: object, **kwargs: object) -> torch.Tensor:
        memory = make(*args, **kwargs)
        with torch.no_grad():
            if memory.is_floating_point() or memory.is_complex():
                memory.fill_(float("nan"))
            elif memory.dtype is not torch.bool:
                memory.fill_(torch.iinfo(memory.dtype).max)
        return memory

    return poisoned

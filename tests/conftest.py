"""What every test runs under: one thread, fixed seeds, poisoned memory, gpu tests only where there is a GPU."""

from __future__ import annotations

import os

# Before torch and CTranslate2 are imported: workers share the cores, and spare threads only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.poison import poisoned_memory

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
def _poisoned_memory() -> Iterator[None]:
    """Memory that nobody wrote holds NaN, or the largest integer."""
    with poisoned_memory():
        yield

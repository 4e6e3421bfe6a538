"""Kernels without a GPU: a check runs under Triton's interpreter, in a process of its own.

The interpreter must be chosen before Triton is imported, and it then holds for every kernel of the process.
A test file has one `check(device)` over its cases and two tests: `run_interpreted(check)`, and `check("cuda")` with the
gpu mark.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import torch
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)  # fills what torch.empty gives with NaN: an element forgotten cannot pass
from {module} import {name}
{name}("cpu")
"""


def run_interpreted(check: Callable[[str], None]) -> None:
    """Call the module-level function `check` with "cpu" under the interpreter; what it raises fails the test.

    There a caller's choice by device would choose the reference: checks import the launcher from `triton.py`, lazily.
    """
    pytest.importorskip("triton", reason="Triton is not installed")
    code = SCRIPT.format(module=check.__module__, name=check.__name__)
    variables = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

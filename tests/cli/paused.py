"""A `ttsbench` that stops at a named call and waits for a line on stdin, so that it can be killed at just that place.

    python paused.py MODULE CLASS.METHOD CALL -- ttsbench arguments

Before call number CALL of the method, "paused" is printed on stdout.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

from ttsbench.cli.main import app


def pause_before(module: str, method: str, call: int) -> None:
    """Make the method wait on its call number `call`."""
    owner_name, name = method.split(".")
    owner = getattr(importlib.import_module(module), owner_name)
    original = getattr(owner, name)
    calls = 0

    def paused(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            print("paused", flush=True)
            sys.stdin.readline()
        return original(*args, **kwargs)

    setattr(owner, name, paused)


if __name__ == "__main__":
    torch.set_num_threads(1)
    module, method, call, dashes, *arguments = sys.argv[1:]
    assert dashes == "--"
    pause_before(module, method, int(call))
    app(arguments)

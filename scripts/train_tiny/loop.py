"""A training loop with a budget: so many steps or so many seconds, whichever is spent first.

    training = Training("talker", folder, Budget(20_000, 900), {"model": model, "optimizer": optimizer})
    step = graphed(one_step)                 # after `Training`: a resumed state must be in place before it is captured
    for progress in training:                # 0 at the first step, towards 1 at the last
        lr.fill_(cosine(progress, 2e-3))
        step()
        if training.due():
            training.log(loss=float(loss))

The learning rate follows `progress`, so a run that the deadline cuts short still anneals to the end. State goes to disk
every `SAVE_EVERY_S` seconds and at the end; a run that is started again continues from there. What a resumed run draws
at random is not what the uninterrupted one would have drawn.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

SAVE_EVERY_S = 45.0
LOG_EVERY_S = 8.0
SYNC_EVERY = 50
"""Steps between waits for the device: more would queue graph launches without end, and time would run behind."""
WARM_UP = 0.02
"""Part of the budget in which the learning rate rises."""


class Stateful(Protocol):
    """A module or an optimizer."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any: ...


@dataclass(frozen=True)
class Budget:
    """A run ends after `steps` steps or after `seconds` of training, what was spent before a restart included."""

    steps: int
    seconds: float = math.inf


class Diverged(RuntimeError):
    """A logged figure is not finite."""


class Training:
    """Iterates over progress; owns the state file `<name>.state.pt` and the log `<name>.jsonl` in `folder`."""

    def __init__(self, name: str, folder: Path, budget: Budget, state: Mapping[str, Stateful]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.budget = budget
        self.step = 0
        self._state = dict(state)
        self._file = folder / f"{name}.state.pt"
        self._log = folder / f"{name}.jsonl"
        self._spent_s = 0.0
        self._started = self._saved = time.monotonic()
        self._logged = -math.inf
        if self._file.exists():
            self._resume()

    @property
    def elapsed_s(self) -> float:
        """Seconds of training so far, those before a restart included."""
        return self._spent_s + time.monotonic() - self._started

    def __iter__(self) -> Iterator[float]:
        self._started = self._saved = time.monotonic()
        while (progress := max(self.step / self.budget.steps, self.elapsed_s / self.budget.seconds)) < 1:
            yield progress
            self.step += 1
            if self.step % SYNC_EVERY == 0 and torch.cuda.is_available():
                torch.cuda.synchronize()
            if time.monotonic() - self._saved > SAVE_EVERY_S:
                self.save()
        self.save()

    def due(self, every_s: float = LOG_EVERY_S) -> bool:
        """True when the last log line is older than `every_s`."""
        return time.monotonic() - self._logged > every_s

    def log(self, **figures: Any) -> None:
        """One JSON line to the log and to stdout. Raises Diverged for a figure that is not finite."""
        self._logged = time.monotonic()
        line = {"piece": self.name, "step": self.step, "elapsed_s": round(self.elapsed_s, 1)}
        line |= {key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()}
        text = json.dumps(line)
        with self._log.open("a", encoding="utf-8") as log:
            log.write(text + "\n")
        print(text, flush=True)
        bad = [key for key, value in figures.items() if isinstance(value, float) and not math.isfinite(value)]
        if bad:
            raise Diverged(f"{self.name}: {', '.join(bad)} at step {self.step}; the last saved state is {self._file}")

    def save(self) -> None:
        """Write the state whole or not at all."""
        self._saved = time.monotonic()
        part = self._file.with_suffix(".part")
        state = {key: item.state_dict() for key, item in self._state.items()}
        torch.save({"state": state, "step": self.step, "elapsed_s": self.elapsed_s}, part)
        os.replace(part, self._file)

    def _resume(self) -> None:
        saved = torch.load(self._file, map_location="cpu", weights_only=True)
        for key, item in self._state.items():
            item.load_state_dict(saved["state"][key])
        self.step, self._spent_s = saved["step"], saved["elapsed_s"]


def cosine(progress: float, peak: float, warm_up: float = WARM_UP) -> float:
    """Learning rate at `progress`: linear to `peak` over `warm_up` of the budget, then half a cosine down to 0.1 %."""
    floor = 1e-3 * peak
    if progress < warm_up:
        return floor + (peak - floor) * progress / warm_up
    done = (progress - warm_up) / (1 - warm_up)
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def adamw(
    modules: Mapping[str, nn.Module], betas: tuple[float, float], weight_decay: float
) -> tuple[torch.optim.Optimizer, Tensor]:
    """AdamW over all parameters and its learning rate as a tensor, which a captured step reads anew each time.

    Weights of two dimensions and more decay; norms, biases and scales do not.
    """
    parameters = [p for module in modules.values() for p in module.parameters() if p.requires_grad]
    device = parameters[0].device
    rate = torch.tensor(0.0, device=device)
    on_gpu = device.type == "cuda"
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=betas, fused=on_gpu, capturable=on_gpu)

    def keep_the_rate(loaded: torch.optim.Optimizer) -> None:
        for group in loaded.param_groups:
            group["lr"] = rate  # loading puts another tensor in its place, which nobody would fill

    optimizer.register_load_state_dict_post_hook(keep_the_rate)
    return optimizer, rate


def graphed(step: Callable[[], None], warm_up: int = 3) -> Callable[[], None]:
    """`step` as a captured CUDA graph, or itself without a GPU.

    The warm-up steps are real ones. `step` must read and write tensors that stay where they are, must not wait for the
    device, and must set gradients to None before it makes new ones.
    """
    if not torch.cuda.is_available():
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm_up):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay

"""The training loop: what a budget means, and what survives a kill."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from scripts.train_tiny.loop import Budget, Diverged, Training, adamw, cosine


def test_steps_end_the_run(tmp_path: Path) -> None:
    """Progress rises from 0 and every step is taken. Red when the budget counts one too many."""
    seen = list(Training("piece", tmp_path, Budget(4), {}))
    assert seen == [0, 0.25, 0.5, 0.75]


def test_seconds_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever budget is spent first decides, and progress follows it, so the rate still anneals to the end."""
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr("scripts.train_tiny.loop.time.monotonic", lambda: float(next(clock)))
    seen = list(Training("piece", tmp_path, Budget(10**9, 100), {}))
    assert len(seen) < 20
    assert seen[-1] > 0.8


def trained(folder: Path, steps: int, stop_after: int | None = None) -> tuple[nn.Linear, Training, torch.Tensor]:
    """A linear layer under AdamW; `stop_after` leaves the loop as a kill after a save would."""
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    optimizer, rate = adamw({"model": model}, (0.9, 0.99), 0.1)
    training = Training("piece", folder, Budget(steps), {"model": model, "optimizer": optimizer})
    x = torch.arange(3.0)
    for progress in training:
        rate.fill_(cosine(progress, 0.1))
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        if stop_after is not None and training.step + 1 == stop_after:
            training.step += 1
            training.save()
            break
    return model, training, rate


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """Nothing here is random, so the resumed run must end with the weights of the uninterrupted one.

    Red when the step, the optimizer's moments or the learning-rate tensor are lost on the way.
    """
    whole, _, _ = trained(tmp_path / "whole", 20)
    trained(tmp_path / "cut", 20, stop_after=7)
    resumed, training, rate = trained(tmp_path / "cut", 20)
    assert training.step == 20
    assert torch.equal(resumed.weight, whole.weight)
    assert float(rate) == pytest.approx(cosine(19 / 20, 0.1))


def test_a_finished_run_trains_no_further(tmp_path: Path) -> None:
    first, _, _ = trained(tmp_path, 5)
    again, _, _ = trained(tmp_path, 5)
    assert torch.equal(first.weight, again.weight)


def test_time_spent_before_a_kill_counts(tmp_path: Path) -> None:
    training = Training("piece", tmp_path, Budget(10, 100), {})
    training._spent_s = 60.0
    training.save()
    assert Training("piece", tmp_path, Budget(10, 100), {}).elapsed_s >= 60


def test_nothing_half_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save that breaks leaves the last state readable. Red when the file is written in place."""
    training = Training("piece", tmp_path, Budget(10), {})
    training.step = 3
    training.save()

    def broken(*args: object) -> None:
        Path(str(args[1])).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("scripts.train_tiny.loop.torch.save", broken)
    with pytest.raises(OSError, match="disk full"):
        training.save()
    assert Training("piece", tmp_path, Budget(10), {}).step == 3


def test_a_figure_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    """The line that shows it is in the log. Red when the loop trains on."""
    training = Training("piece", tmp_path, Budget(10), {})
    training.log(loss=1.5)
    with pytest.raises(Diverged, match="loss at step 0"):
        training.log(loss=math.nan)
    lines = [json.loads(line) for line in (tmp_path / "piece.jsonl").read_text().splitlines()]
    assert next(line["loss"] for line in lines) == 1.5
    assert len(lines) == 2


def test_the_rate_rises_then_falls_to_a_thousandth() -> None:
    rates = [cosine(p / 100, 1.0) for p in range(101)]
    assert rates[0] == pytest.approx(1e-3)
    assert max(rates) == pytest.approx(1.0)
    assert rates.index(max(rates)) == 2
    assert rates[-1] == pytest.approx(1e-3)

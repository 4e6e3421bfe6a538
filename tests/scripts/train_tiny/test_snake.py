"""The fused Snake of the decoder's training against the module's own formula."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from scripts.train_tiny.fast_decoder import plain_snake
from ttsbench.models.qwen3_tts.codec_layers import Snake

pytest.importorskip("triton")

ROOT = Path(__file__).parents[3]
SHAPES = [(1, 1, 5), (2, 3, 63), (3, 5, 2049)]
"""A few positions, an odd row, and a row that fills one block and starts another."""


def differences(snake, shape: tuple[int, int, int], device: str, dtype: torch.dtype) -> list[float]:
    """Largest relative difference from the formula in float64: of the output, then of the three gradients."""
    torch.manual_seed(0)
    module = Snake(shape[1]).to(device)
    torch.nn.init.normal_(module.alpha, std=0.5)
    torch.nn.init.normal_(module.beta, std=0.5)
    x = torch.randn(shape, device=device).to(dtype)
    weight = torch.randn(shape, device=device).to(dtype)
    outcomes: list[list[Tensor]] = []
    for function, run_as in ((snake, dtype), (plain_snake, torch.float64)):
        layer = module if run_as is dtype else module.double()
        layer.zero_grad()
        given = x.detach().to(run_as).requires_grad_()
        y = function(layer, given)
        (y * weight.to(run_as)).sum().backward()
        assert given.grad is not None
        grads = [given.grad, layer.alpha.grad, layer.beta.grad]
        outcomes.append([y.detach().double(), *(grad.double() for grad in grads if grad is not None)])
    return [float((a - b).abs().max() / b.abs().max()) for a, b in zip(*outcomes, strict=True)]


def check(device: str) -> None:
    """float32 agrees to a sum's rounding over 2,049 terms, bfloat16 to that of its eight bits."""
    from scripts.train_tiny.snake import snake

    for shape in SHAPES:
        assert max(differences(snake, shape, device, torch.float32)) < 1e-5, shape
        assert max(differences(snake, shape, device, torch.bfloat16)) < 1e-2, shape


def test_the_kernels_give_the_formula_and_its_gradients_in_the_interpreter():
    """Red when a sign or factor of a gradient is wrong, a block's end is not masked, or a channel is another's.

    The interpreter must be chosen before Triton is imported, hence the process.
    """
    code = "from tests.scripts.train_tiny.test_snake import check; check('cpu')"
    variables = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
def test_the_kernels_give_the_formula_and_its_gradients_on_a_gpu():
    """Red for what the interpreter cannot know, such as an inexact sine."""
    check("cuda")


def test_the_formula_is_that_of_the_module():
    """Red when the module's formula changes and that of the training does not."""
    module = Snake(3)
    torch.nn.init.normal_(module.alpha)
    torch.nn.init.normal_(module.beta)
    module.derive()
    x = torch.randn(2, 3, 5)
    # The same operations in another order.
    assert torch.allclose(plain_snake(module, x), module(x), atol=1e-6)

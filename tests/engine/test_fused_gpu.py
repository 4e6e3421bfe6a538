"""The same eager engine on a CUDA device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.engine.toys import ToyEngine, requests


@pytest.mark.gpu
def test_codes_and_pcm_equal_those_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Float32 without TF32, sampled with the same seeds: equal codes, and PCM to 1e-4 of full scale."""
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    asked = requests(7)
    here, there = ToyEngine().speak(asked), ToyEngine(device="cuda").speak(asked)
    for one in asked:
        assert np.array_equal(np.stack(here[one.id].codes), np.stack(there[one.id].codes))
        assert np.abs(here[one.id].pcm - there[one.id].pcm).max() < 1e-4

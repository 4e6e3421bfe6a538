"""What the host receives of a frame: the kernel against the reference, word by word."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.interpreted import run_interpreted
from ttsbench.kernels.pack_frame import FINITE_PCM, cases
from ttsbench.kernels.pack_frame.reference import pack_frame as reference


def check(device: str, chosen: tuple[cases.Case, ...] = cases.SMALL) -> None:
    for case in chosen:
        compare(case, device, torch.float32)


def compare(case: cases.Case, device: str, dtype: torch.dtype) -> None:
    """Nothing is computed, so the words are equal, whatever the `dtype`: samples are float32."""
    from ttsbench.kernels.pack_frame.triton import pack_frame

    given, want = cases.inputs(case, device), cases.inputs(case, "cpu")
    reference(*vars(want).values())
    pack_frame(*vars(given).values())
    ours, theirs = given.out.cpu().view(torch.int32), want.out.view(torch.int32)
    assert torch.equal(ours, theirs), f"{case.name}: {int((ours != theirs).sum())} words differ"


def test_the_kernel_gives_the_words_of_the_reference_in_the_interpreter() -> None:
    """Red when a fault marks another row or none, "infinite" is asked for where "not finite" is meant, or a code is
    written as a number and not as its bits.
    """
    run_interpreted(check)


@pytest.mark.gpu
def test_the_kernel_gives_the_words_of_the_reference_on_a_gpu() -> None:
    check("cuda", cases.SMALL + cases.RELEASED)


def test_the_words_are_samples_codes_and_flags() -> None:
    """Red if a flag of the report is lost, or NaN or an infinity passes for sound."""
    pcm = torch.tensor([[0.5, -1.0], [float("nan"), 0.0], [0.0, float("-inf")]])
    report = torch.tensor([[11, 12, 5, 0], [21, 22, 2, 1], [31, 32, 0, 2]])
    out = torch.empty(3, 5)
    reference(pcm, report, out)
    assert torch.equal(out[:, :2].view(torch.int32), pcm.view(torch.int32))
    assert out[:, 2:].view(torch.int32).tolist() == [[11, 12, 5 + FINITE_PCM], [21, 22, 2], [31, 32, 0]]

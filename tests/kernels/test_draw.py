"""Draws: the kernel against the reference, and what both owe their callers.

A check runs in the interpreter and on a GPU; what it imports lazily needs Triton.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.kernels.interpreted import run_interpreted
from ttsbench.core import DrawParams
from ttsbench.kernels import draw
from ttsbench.kernels.draw import reference
from ttsbench.kernels.draw.cases import BOOK, CASES, MIXED, NUM_CODEBOOKS, Case, Inputs, make, run, settings_of
from ttsbench.kernels.draw.philox import LARGEST_UNIFORM, uniform_of, uniforms
from ttsbench.kernels.draw.types import RowDraws

TALKER, TIED = (case for case in CASES if case.name in ("talker, mixed settings", "talker, mixed settings, tied"))
SMALL = replace(TALKER, vocabulary=120, width=8)
NUDGE = 1e-6
"""Float32 exponentials of two libraries move a boundary by a few 1e-7 of the whole."""


def kernel() -> ModuleType:
    from ttsbench.kernels.draw import triton

    return triton


def steady_rows(given: Inputs) -> Tensor:
    """Rows [B] whose code stays when uniform and top-p move by `NUDGE`: those of which the reference is sure."""
    logits, rows = given.logits.float(), given.rows
    if given.rules is not None:
        logits = reference._by_the_rules(logits, rows, given.rules)
    draws = RowDraws.of(given.settings, rows.slots)
    book = torch.tensor([BOOK if given.rules is None else 0])
    u = uniforms(rows.seeds[rows.slots], rows.frames, book)[:, 0]
    codes = [
        reference.draw_codes(
            logits, replace(draws, top_p=(draws.top_p + p).clamp(max=1)), (u + v).clamp(0, LARGEST_UNIFORM)
        )
        for p in (-NUDGE, NUDGE)
        for v in (-NUDGE, NUDGE)
    ]
    return torch.stack(codes).eq(codes[0]).all(dim=0)


def compare(case: Case, device: str, dtype: torch.dtype | None = None, seed: int = 0) -> None:
    """Codes, flags, marks and embeddings of the kernel are those of the reference, and nothing else is written.

    In the case's own dtype if none is given.
    """
    case = replace(case, dtype=dtype or case.dtype)
    most = (4 if len(case.params) == 1 else 18) if device == "cpu" else None  # the interpreter takes some 30 ms a row
    ours, theirs = make(case, device, seed, most), make(case, "cpu", seed, most)
    steady = steady_rows(theirs)
    assert steady.float().mean() > 0.9, case.name
    run(reference, theirs)
    run(kernel(), ours)
    outcome = [
        (ours.drawn.codes, theirs.drawn.codes),
        (ours.drawn.finite, theirs.drawn.finite),
    ]
    if ours.rules is not None and theirs.rules is not None:
        outcome.append((ours.rules.seen[ours.rows.slots], theirs.rules.seen[theirs.rows.slots]))
    if ours.out is not None and theirs.out is not None:
        outcome.append((ours.out, theirs.out))
        assert not ours.out._base[:, 0].any(), case.name  # type: ignore[index]
    for of_kernel, of_reference in outcome:
        wrong = int((of_kernel.cpu() != of_reference)[steady].sum())
        assert wrong == 0, f"{case.name}, {case.dtype}: {wrong} values differ"


def check_cases(device: str) -> None:
    for case in CASES:
        compare(case, device)
    for seed in range(1, 3):
        compare(SMALL, device, seed=seed)
        compare(replace(SMALL, tied=True), device, seed=seed)


def test_the_kernel_draws_what_the_reference_draws():
    """Over all settings in one batch. Red if the kernel reads a setting by row and not by slot, cuts before the k-th
    or loses a tie with it, marks no code, forgets the nucleus, or copies a neighbouring row of the table.
    """
    run_interpreted(check_cases)


@pytest.mark.gpu
def test_the_kernel_draws_what_the_reference_draws_on_a_gpu():
    """Red for what the interpreter cannot know: a fused multiply-add, a race between loading and marking."""
    check_cases("cuda")


def check_uniforms(device: str) -> None:
    from tests.kernels.draw_probe import kernel_uniforms, kernel_uniforms_of

    seeds = torch.cat((torch.tensor([0, 1, 2**63 - 1, 2**32 - 1, 2**32]), torch.randint(0, 2**62, (59,)))).to(device)
    frames = torch.cat((torch.tensor([0, 2**31 + 5, 2**32 - 1]), torch.arange(61))).to(device)
    books = (torch.arange(64) % NUM_CODEBOOKS).to(device)
    expected = torch.cat([uniforms(seeds[i : i + 1], frames[i : i + 1], books[i : i + 1])[0] for i in range(64)])
    assert torch.equal(kernel_uniforms(seeds, frames, books.int()), expected)
    words = torch.tensor([0, 255, 256, 2**31, 2**32 - 257, 2**32 - 256, 2**32 - 1], device=device)
    assert torch.equal(kernel_uniforms_of(words), uniform_of(words))
    assert float(kernel_uniforms_of(words).max()) == LARGEST_UNIFORM


def test_the_kernel_has_the_same_random_numbers():
    """Bit for bit; `philox` itself meets the published answers. Red if the seed's high word is dropped, frame and
    codebook change places, or the last number rounds to 1.
    """
    run_interpreted(check_uniforms)


@pytest.mark.gpu
def test_the_kernel_has_the_same_random_numbers_on_a_gpu():
    """Red if words are signed on the way."""
    check_uniforms("cuda")


def check_broken_logits(draws: Callable[[Inputs], Tensor], device: str) -> None:
    whole, broken = make(SMALL, device, most_rows=18), make(SMALL, device, most_rows=18)
    faults = {1: float("nan"), 4: float("inf"), 5: float("-inf"), 10: float("nan")}
    for row, fault in faults.items():
        broken.logits[row, 7 * row % SMALL.vocabulary] = fault
    broken.logits[10] = float("nan")
    whole.drawn.finite[2] = broken.drawn.finite[2] = False
    expected, codes = draws(whole), draws(broken)
    sound = torch.ones(18, dtype=torch.bool, device=device)
    sound[list(faults)] = False
    assert torch.equal(codes, expected * sound)
    sound[2] = False
    assert torch.equal(broken.drawn.finite, sound)
    assert broken.out is not None
    assert torch.equal(broken.out, broken.table[codes])


def check_broken_logits_in_the_kernel(device: str) -> None:
    check_broken_logits(lambda given: run(kernel(), given), device)


def test_a_row_with_broken_logits_is_flagged_and_draws_code_0():
    """NaN or an infinity marks its row alone, for good, and no embedding is read from outside the table.

    Red if a flag is set anew instead of and-ed, or a code is drawn from NaN.
    """
    check_broken_logits(lambda given: run(reference, given), "cpu")


def test_a_row_with_broken_logits_is_flagged_and_draws_code_0_in_the_kernel():
    """As above. Red if "infinite" is asked for where "not finite" is meant, since NaN is not infinite."""
    run_interpreted(check_broken_logits_in_the_kernel)


@pytest.mark.gpu
def test_a_row_with_broken_logits_is_flagged_and_draws_code_0_on_a_gpu():
    """As above. Red if NaN makes a search run on for ever."""
    check_broken_logits_in_the_kernel("cuda")


def check_suppressed(draws: Callable[[Inputs], Tensor], device: str) -> None:
    """Control ids and an early end have by far the largest logits: rows differ in frame and in settings."""
    given = make(SMALL, device, most_rows=18)
    rules = given.rules
    assert rules is not None
    given.logits[:, rules.first_control_id :] += 40
    codes = draws(given)
    slots = given.rows.slots
    may_end = given.rows.frames >= rules.min_frames[slots]
    assert may_end.any()
    assert not may_end.all()
    assert torch.equal(codes == rules.eos, may_end)
    assert (codes[~may_end] < rules.first_control_id).all()


def check_suppressed_in_the_kernel(device: str) -> None:
    check_suppressed(lambda given: run(kernel(), given), device)


def test_control_ids_are_never_drawn_and_speech_ends_only_from_min_frames_on():
    """Red if the end is suppressed with the control ids, or compared with <= instead of <."""
    check_suppressed(lambda given: run(reference, given), "cpu")


def test_control_ids_are_never_drawn_in_the_kernel():
    """As above, for the kernel's own mask."""
    run_interpreted(check_suppressed_in_the_kernel)


@pytest.mark.gpu
def test_control_ids_are_never_drawn_on_a_gpu():
    """As above."""
    check_suppressed_in_the_kernel("cuda")


def check_shared_slot(device: str) -> None:
    """Every third row becomes a padding row on one slot that no other row has."""
    given, padded = (make(SMALL, device, most_rows=15) for _ in range(2))
    spare = min(set(range(18)) - set(given.rows.slots.tolist()))
    padded.rows.slots[::3] = spare
    expected, codes = run(kernel(), given), run(kernel(), padded)
    real = torch.arange(15, device=device) % 3 != 0
    assert torch.equal(codes[real], expected[real])
    assert ((codes >= 0) & (codes < SMALL.vocabulary)).all()
    assert given.rules is not None
    assert padded.rules is not None
    kept = given.rows.slots[real]
    assert torch.equal(padded.rules.seen[kept], given.rules.seen[kept])


def test_padding_rows_on_one_slot_reach_no_real_row():
    """Red if a row marks or reads by its number."""
    run_interpreted(check_shared_slot)


@pytest.mark.gpu
def test_padding_rows_on_one_slot_reach_no_real_row_on_a_gpu():
    """As above, with programs that run at the same time."""
    check_shared_slot("cuda")


def check_tied_nucleus(device: str) -> None:
    """Few different logits whose probabilities have exact sums, so that the border is met exactly."""
    n = 16
    for logits, top_p, kept in (
        ([0.0] * 8, 0.5, {4, 5, 6, 7}),
        ([0.0] * 8, 0.51, {3, 4, 5, 6, 7}),
        ([0.0] * 8, 1e-9, {7}),
        ([3.0, -90.0, 3.0, -90.0], 0.5, {2}),
        ([3.0, -90.0, 3.0, -90.0], 1e-9, {2}),
    ):
        case = Case("nucleus", n, len(logits), 4, (DrawParams(True, 1.0, 0, top_p),))
        for module, where in ((reference, "cpu"), (kernel(), device)):
            given = make(case, where)
            given.logits.copy_(torch.tensor(logits))
            assert set(run(module, given).tolist()) == kept


def test_the_nucleus_leaves_out_the_lower_of_equal_codes():
    """At the border exactly, and never all of them. Red with < for <=, or without the guard of the last code."""
    run_interpreted(check_tied_nucleus)


@pytest.mark.gpu
def test_the_nucleus_leaves_out_the_lower_of_equal_codes_on_a_gpu():
    """As above."""
    check_tied_nucleus("cuda")


@pytest.mark.parametrize("case", [TIED, SMALL, replace(SMALL, first=False)])
def test_what_a_frame_shares_changes_no_draw(case: Case):
    """With and without `prepared`, thrice from one memo. Red if its uniforms are another codebook's, or its settings
    another DrawSettings'.
    """
    rows = draw.prepared(make(case).rows, NUM_CODEBOOKS)
    assert rows.memo is not None
    own = make(case).settings
    greedy = settings_of([DrawParams(do_sample=False)] * len(own.sample))
    for settings in (greedy, own, greedy):
        shared = run(reference, replace(make(case), rows=rows, settings=settings))
        assert torch.equal(shared, run(reference, replace(make(case), settings=settings)))


def test_a_cpu_draws_by_the_reference():
    """Both entries, with all that they were given. Red if one loses an argument on the way."""
    for case in (SMALL, replace(SMALL, first=False), replace(SMALL, first=False, copies=False)):
        expected, given = make(case), make(case)
        assert torch.equal(run(draw, given), run(reference, expected))
        if given.out is not None and expected.out is not None:
            assert torch.equal(given.out, expected.out)


@pytest.mark.gpu
def test_settings_compile_nothing():
    """One kernel serves every top-k, top-p, codebook and batch. Red if any of them becomes a compile-time value."""
    compiled = kernel().draw_kernel.device_caches
    base = replace(SMALL, first=False)
    for book in (2, 1, 15, 0, 16):
        for params in MIXED:
            for rows in (1, 16, 17):
                given = make(replace(base, params=(params,), rows=rows), "cuda")
                kernel().draw_code(
                    book % 16, given.logits, given.rows, given.settings, given.drawn, given.table, given.out
                )
        if book == 2:
            first = sum(len(cache[0]) for cache in compiled.values())
    assert first > 0
    assert sum(len(cache[0]) for cache in compiled.values()) == first

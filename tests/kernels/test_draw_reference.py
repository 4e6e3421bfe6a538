"""From logits to codes: each rule against its plain definition, and draws as a function of their own row alone."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from ttsbench.core import DrawParams
from ttsbench.kernels.draw.cases import settings_of
from ttsbench.kernels.draw.philox import LARGEST_UNIFORM
from ttsbench.kernels.draw.reference import (
    NEVER,
    distribution,
    draw_codes,
    forbid,
    keep_top_k,
    keep_top_p,
    penalise_repeats,
)
from ttsbench.kernels.draw.types import RowDraws

draw_params = st.builds(
    DrawParams,
    do_sample=st.booleans(),
    temperature=st.floats(0.05, 4),
    top_k=st.integers(0, 40),
    top_p=st.floats(0.01, 1),
)
uniform = st.floats(2.0**-25, LARGEST_UNIFORM, width=32)
seed = st.integers(0, 2**31)


def logits_of(seed: int, rows: int = 1, width: int = 24) -> Tensor:
    """Random logits with many ties, some of them forbidden."""
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(rows, width, generator=generator) * 4).round() / 2
    return logits.masked_fill(torch.rand(rows, width, generator=generator) < 0.2, NEVER).index_fill(
        1, torch.tensor([seed % width]), 0.0
    )


def draws_of(*params: DrawParams) -> RowDraws:
    return RowDraws.of(settings_of(params), torch.arange(len(params)))


def probabilities(logits: Tensor, params: DrawParams) -> Tensor:
    return distribution(logits, draws_of(params))[0]


@given(seed, st.floats(0.5, 2))
def test_penalty_is_once_per_code_that_was_seen(seed: int, penalty: float) -> None:
    """Positive logits are divided, the others multiplied, whatever the code's count. To break it: always divide."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, 16, generator=generator).index_fill(1, torch.tensor([3]), 0.0)
    history = torch.randint(0, 16, (20,), generator=generator).tolist()
    seen = torch.zeros(1, 16, dtype=torch.bool)
    for code in history:
        seen[0, code] = True
    rate = float(torch.tensor(penalty))
    expected = logits.clone()
    for code in set(history):
        value = float(logits[0, code])
        expected[0, code] = value / rate if value > 0 else value * rate
    penalised = penalise_repeats(logits, seen, torch.tensor([penalty]))
    assert torch.allclose(penalised, expected, rtol=1e-6, atol=0)  # one float32 operation, rounded once or twice
    assert torch.equal(penalised[~seen], logits[~seen])


def test_each_row_has_its_own_penalty() -> None:
    logits, seen = torch.tensor([[2.0, -2.0]] * 3), torch.tensor([[True, True]] * 3)
    penalised = penalise_repeats(logits, seen, torch.tensor([1.0, 2.0, 4.0]))
    assert penalised.tolist() == [[2.0, -2.0], [1.0, -4.0], [0.5, -8.0]]


def test_greedy_is_penalty_and_suppression_then_the_largest() -> None:
    """Plain argmax would be another decoder: here it would take a control id, then a repeated code."""
    logits = torch.tensor([[1.0, 2.9, 3.0, 9.0]])
    seen = torch.tensor([[False, False, True, False]])
    control = torch.tensor([False, False, False, True])
    greedy = draws_of(DrawParams(do_sample=False, temperature=0.1, top_k=1))
    ready = forbid(penalise_repeats(logits, seen, torch.tensor([1.05])), control)
    assert draw_codes(ready, greedy, torch.tensor([0.5])).tolist() == [1]


def test_greedy_takes_the_first_of_equal_logits() -> None:
    assert draw_codes(torch.tensor([[0.0, 1.0, 1.0]]), draws_of(DrawParams(False)), torch.tensor([0.9])).tolist() == [1]


def test_ties_survive_top_k() -> None:
    """As published: a logit that reaches the k-th largest stays, so three equal ones survive k = 2."""
    logits = torch.tensor([[1.0, 0.0, 1.0, 1.0, -1.0]])
    assert (keep_top_k(logits, torch.tensor([2]), 2) > NEVER).tolist() == [[True, False, True, True, False]]


@given(seed, st.integers(0, 40))
def test_top_k_keeps_what_reaches_the_kth_largest(seed: int, k: int) -> None:
    """0 keeps all, and so does a k beyond the vocabulary. To break it: treat 0 as 1, or forget to clamp."""
    logits = logits_of(seed)
    kept = keep_top_k(logits, torch.tensor([k]), 40)  # a neighbour may ask for more
    if k == 0:
        assert torch.equal(kept, logits)
    else:
        kth = sorted(logits[0].tolist(), reverse=True)[min(k, logits.shape[1]) - 1]
        assert torch.equal(kept, logits.masked_fill(logits < kth, NEVER))


@given(seed, st.floats(0.01, 1))
def test_top_p_keeps_the_fewest_codes_that_hold_p(seed: int, p: float) -> None:
    """The kept mass reaches p, and without its least likely code it does not. 1e-6 covers float32 sums of 24 terms."""
    logits = logits_of(seed)
    all_of_them = torch.softmax(logits, dim=-1)[0].double()
    kept = keep_top_p(logits, torch.tensor([p]))[0] > NEVER
    mass = float(all_of_them[kept].sum())
    assert kept.any()
    assert mass >= p - 1e-6
    if p < 1 and int(kept.sum()) > 1:
        assert mass - float(all_of_them[kept].min()) <= p + 1e-6
    assert max([0.0, *all_of_them[~kept].tolist()]) <= float(all_of_them[kept].min())


@pytest.mark.parametrize(("p", "kept"), [(1.0, 4), (0.91, 4), (0.89, 3), (0.71, 3), (0.69, 2), (0.39, 1), (1e-6, 1)])
def test_top_p_edges(p: float, kept: int) -> None:
    """At 0.4, 0.3, 0.2, 0.1: a tiny p keeps the likeliest code, 1 keeps all, and codes go one by one in between."""
    logits = torch.tensor([[0.2, 0.4, 0.1, 0.3]]).log()
    survivors = (keep_top_p(logits, torch.tensor([p]))[0] > NEVER).nonzero()[:, 0].tolist()
    assert survivors == sorted([1, 3, 0, 2][:kept])


@given(st.lists(draw_params, min_size=1, max_size=6), seed, st.data())
def test_a_row_is_the_row_alone(params: list[DrawParams], seed: int, data: st.DataObject) -> None:
    """Bit for bit, whatever its neighbours ask for. To break it: use the largest top_k or the first top_p for all."""
    logits = logits_of(seed, rows=len(params))
    uniforms = torch.tensor([data.draw(uniform) for _ in params])
    together = distribution(logits, draws_of(*params))
    codes = draw_codes(logits, draws_of(*params), uniforms)
    for row, own in enumerate(params):
        alone = slice(row, row + 1)
        assert torch.equal(together[alone], distribution(logits[alone], draws_of(own)))
        assert int(codes[row]) == int(draw_codes(logits[alone], draws_of(own), uniforms[alone]))


@given(seed, draw_params, uniform | st.sampled_from([2.0**-25, LARGEST_UNIFORM]))
def test_a_draw_has_probability(seed: int, params: DrawParams, u: float) -> None:
    """Never a code of probability zero, also at both ends of the interval. To break it: round codes up."""
    logits = logits_of(seed)
    (code,) = draw_codes(logits, draws_of(params), torch.tensor([u])).tolist()
    if params.do_sample:
        assert probabilities(logits, params)[code] > 0
    else:
        assert code == int(logits.argmax())


def test_probabilities_that_sum_to_less_than_one_leave_no_gap() -> None:
    """Float32 sums miss 1 by more than 2**-24 in some rows. To break it: do not scale the uniform by the sum."""
    logits = torch.randn(256, 512).index_fill(1, torch.tensor([511]), NEVER)
    draws = draws_of(*[DrawParams(top_k=0)] * len(logits))
    chances = distribution(logits, draws)
    assert (chances.double().sum(-1) < LARGEST_UNIFORM).any()
    codes = draw_codes(logits, draws, torch.full((len(logits),), LARGEST_UNIFORM))
    assert (chances.gather(1, codes[:, None]) > 0).all()


def test_the_ends_of_the_interval_meet_the_first_and_last_code() -> None:
    logits = torch.tensor([[NEVER, 0.0, NEVER, 0.0, NEVER]])
    for u, code in ((2.0**-25, 1), (LARGEST_UNIFORM, 3)):
        assert draw_codes(logits, draws_of(DrawParams()), torch.tensor([u])).tolist() == [code]


@given(seed, draw_params.filter(lambda params: params.do_sample))
def test_draws_follow_the_probabilities(seed: int, params: DrawParams) -> None:
    """Over n evenly spaced uniforms a code of probability p is drawn n p times, give or take one.

    Each code owns one interval of length p, and such an interval meets floor(n p) or ceil(n p) points of the grid. No
    random sample could tell so small a difference; a wrong temperature moves hundreds of draws. 0.1 covers rounding:
    at temperature 0.05 the exponents reach 160, where float32 is good to 1e-5, and n times that is 0.04.
    """
    n = 4096
    grid = (torch.arange(n) + 0.5) / n
    logits = logits_of(seed)
    codes = draw_codes(logits.expand(n, -1), draws_of(*[params] * n), grid)
    counts = torch.bincount(codes, minlength=logits.shape[1])
    expected = n * torch.softmax(_kept_by_definition(logits[0], params).double() / params.temperature, dim=-1)
    assert (counts - expected).abs().max() <= 1 + 0.1


def _kept_by_definition(logits: Tensor, params: DrawParams) -> Tensor:
    """Top-k and top-p in plain Python; of equal logits at the nucleus's border the lower ids are left out first."""
    ranked = sorted(range(len(logits)), key=lambda code: (-float(logits[code]), -code))
    if params.top_k:
        kth = logits[ranked[min(params.top_k, len(ranked)) - 1]]
        ranked = [code for code in ranked if logits[code] >= kth]
    masses = [math.exp(float(logits[code]) / params.temperature) for code in ranked]
    needed = params.top_p * sum(masses)
    held = list(itertools.accumulate(masses, initial=0.0))
    if params.top_p < 1:
        assume(all(abs(part - needed) > 1e-4 * needed for part in held))  # rounding decides at the border itself
        ranked = [code for code, before in zip(ranked, held, strict=False) if before < needed]
    outside = torch.ones(len(logits), dtype=torch.bool).index_fill(0, torch.tensor(ranked), False)
    return logits.masked_fill(outside, NEVER)


@given(seed, draw_params.filter(lambda params: params.do_sample), st.lists(uniform, min_size=2, max_size=20))
def test_draws_rise_with_the_uniform(seed: int, params: DrawParams, uniforms: list[float]) -> None:
    """Codes own intervals in their own order, which is what keeps seeded draws stable under rounding.

    To break it: draw along the sorted probabilities.
    """
    logits = logits_of(seed).expand(len(uniforms), -1)
    codes = draw_codes(logits, draws_of(*[params] * len(uniforms)), torch.tensor(sorted(uniforms)))
    assert codes.tolist() == sorted(codes.tolist())


def test_temperature_divides_before_the_nucleus() -> None:
    """At temperature 0.5 the probabilities 0.6, 0.4 become 9/13, 4/13, and the first alone holds 0.65."""
    logits = torch.tensor([[0.6, 0.4]]).log()
    assert (probabilities(logits, DrawParams(True, 0.5, 0, 0.65)) > 0).tolist() == [True, False]
    assert (probabilities(logits, DrawParams(True, 1.0, 0, 0.65)) > 0).tolist() == [True, True]


def test_an_empty_batch_has_draws() -> None:
    assert draws_of().largest_top_k == 0


def test_a_low_temperature_is_the_largest_logit_and_never_nan() -> None:
    """Large logits over a small temperature leave float32's range. Red if the division comes before the subtraction."""
    logits = torch.tensor([[3e35, 1.0, -2e35, float("-inf")]])
    draws = draws_of(DrawParams(True, 1.1e-4, 0, 1.0))
    assert distribution(logits, draws).tolist() == [[1.0, 0.0, 0.0, 0.0]]
    assert draw_codes(logits, draws, torch.tensor([0.999])).tolist() == [0]

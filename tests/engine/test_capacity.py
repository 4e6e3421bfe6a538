"""How many KV blocks fit, as plain arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ttsbench.core import InvalidInput
from ttsbench.engine.capacity import Budget, describe, plan_blocks

BUDGET = Budget(total=1000, usable=900, held=300, graphs=100)


def test_as_many_blocks_as_wanted_or_as_fit() -> None:
    """500 bytes are left. Red if what is left alone, held or taken by graphs is given away too."""
    assert BUDGET.left == 500
    assert plan_blocks(wanted=3, least=2, block_bytes=100, budget=BUDGET) == 3
    assert plan_blocks(wanted=9, least=2, block_bytes=100, budget=BUDGET) == 5
    assert plan_blocks(wanted=9, least=5, block_bytes=100, budget=BUDGET) == 5


def test_what_preempted_requests_may_keep_is_not_given_to_blocks() -> None:
    """Else the first preemption finds no memory. Red if it is forgotten in what is left, or in what is said."""
    budget = replace(BUDGET, histories=250)
    assert budget.left == 250
    assert plan_blocks(wanted=9, least=2, block_bytes=100, budget=budget) == 2
    assert "set aside for preempted requests" in describe(budget)
    assert "preempted" not in describe(BUDGET)


@pytest.mark.parametrize("held", [300, 900, 2000])
def test_too_small_for_one_request_is_an_error_that_says_what_to_change(held: int) -> None:
    """Also when more is held than may be. Red if zero or a negative number of blocks comes back."""
    with pytest.raises(InvalidInput, match="lower max_num_seqs, max_model_len or num_kv_blocks, or raise"):
        plan_blocks(wanted=9, least=6, block_bytes=100, budget=Budget(1000, 900, held, 100))

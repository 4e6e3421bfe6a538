"""How many KV blocks fit, as plain arithmetic."""

from __future__ import annotations

import pytest

from ttsbench.core import InvalidInput
from ttsbench.engine.capacity import Budget, plan_blocks

BUDGET = Budget(total=1000, usable=900, held=300, graphs=100)


def test_as_many_blocks_as_wanted_or_as_fit() -> None:
    """500 bytes are left. Red if what is left alone, held or taken by graphs is given away too."""
    assert BUDGET.left == 500
    assert plan_blocks(wanted=3, least=2, block_bytes=100, budget=BUDGET) == 3
    assert plan_blocks(wanted=9, least=2, block_bytes=100, budget=BUDGET) == 5
    assert plan_blocks(wanted=9, least=5, block_bytes=100, budget=BUDGET) == 5


@pytest.mark.parametrize("held", [300, 900, 2000])
def test_too_small_for_one_request_is_an_error_that_says_what_to_change(held: int) -> None:
    """Also when more is held than may be. Red if zero or a negative number of blocks comes back."""
    with pytest.raises(InvalidInput, match="lower max_num_seqs, max_model_len or num_kv_blocks, or raise"):
        plan_blocks(wanted=9, least=6, block_bytes=100, budget=Budget(1000, 900, held, 100))

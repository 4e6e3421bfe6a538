"""Every size that can occur has its bucket."""

from __future__ import annotations

import pytest

from ttsbench.engine.buckets import bucket, row_buckets, token_buckets


@pytest.mark.parametrize("sizes", [row_buckets, token_buckets], ids=["rows", "tokens"])
@pytest.mark.parametrize("capacity", [*range(1, 70), 127, 128, 129, 255, 256, 257, 512, 2048, 2500])
def test_buckets_cover_every_size_up_to_the_capacity(sizes, capacity: int) -> None:
    """Each size gets the smallest bucket that holds it. Red if the capacity is no bucket of its own (try dropping it
    from the set), if the list is not sorted, or if `bucket` takes the next larger one for an exact fit.
    """
    buckets = sizes(capacity)
    assert buckets[-1] == capacity
    for size in range(1, capacity + 1):
        assert bucket(buckets, size) == min(b for b in buckets if b >= size)


@pytest.mark.parametrize("capacity", [1, 4, 100, 512])
def test_beyond_the_largest_bucket_is_an_error(capacity: int) -> None:
    """Red if such a step runs in the largest bucket, which would leave rows out."""
    with pytest.raises(ValueError, match=f"a step of {capacity + 1} rows fits no bucket: the largest is {capacity}"):
        bucket(row_buckets(capacity), capacity + 1)


def test_padding_stays_small() -> None:
    """A decode step of 16 rows and more is padded by less than eight. Red with buckets that double."""
    buckets = row_buckets(256)
    assert all(bucket(buckets, size) - size < 8 for size in range(1, 257))

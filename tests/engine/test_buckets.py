"""Every size that can occur has its bucket."""

from __future__ import annotations

import pytest

from ttsbench.engine.buckets import Buckets, bucket, codec_buckets, frame_buckets, token_buckets

CAPACITIES = [*range(1, 70), 127, 128, 129, 255, 256, 257, 512, 2048, 2500]


@pytest.mark.parametrize("sizes", [frame_buckets, codec_buckets, token_buckets], ids=["frames", "codec", "tokens"])
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_buckets_cover_every_size_up_to_the_capacity(sizes, capacity: int) -> None:
    """Each size gets the smallest bucket that holds it. Red if the capacity has no bucket (try dropping it from the
    set), if the list is not sorted, or if `bucket` takes the next larger one for an exact fit.
    """
    buckets = sizes(capacity)
    assert buckets[-1] >= capacity
    for size in range(1, capacity + 1):
        assert bucket(buckets, size) == min(b for b in buckets if b >= size)


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_only_talker_and_code_predictor_are_padded_beyond_the_capacity(capacity: int) -> None:
    """Red if the codec, a prompt step or anything eager has rows that no slot stands for, or the codec more than a
    frame has.
    """
    made = Buckets.of(capacity, budget=capacity, padded=True)
    assert made.codec[-1] == made.tokens[-1] == capacity
    assert made.largest == Buckets(made.frames[-1:], (capacity,), (capacity,))
    for size in range(1, capacity + 1):
        assert bucket(made.codec, size) <= bucket(made.frames, size)
    eager = Buckets.of(capacity, budget=capacity, padded=False)
    assert eager == Buckets(made.codec, made.codec, made.tokens)


def test_many_rows_fill_their_tiles() -> None:
    """Red if a step of more than 16 rows leaves a tile half empty."""
    assert frame_buckets(200) == (1, 2, 4, 8, 16, 64, 128, 192, 256)
    assert frame_buckets(12) == (1, 2, 4, 8, 12)


@pytest.mark.parametrize("capacity", [1, 4, 100, 512])
def test_beyond_the_largest_bucket_is_an_error(capacity: int) -> None:
    """Red if such a step runs in the largest bucket, which would leave rows out."""
    with pytest.raises(ValueError, match=f"a step of {capacity + 1} rows fits no bucket: the largest is {capacity}"):
        bucket(codec_buckets(capacity), capacity + 1)


def test_padding_of_the_codec_stays_small() -> None:
    """Its time goes with its rows: less than eight in vain. Red with buckets that double."""
    buckets = codec_buckets(256)
    assert all(bucket(buckets, size) - size < 8 for size in range(1, 257))

"""The decoder layer's parts against their formulas; and in whatever pieces a cache is fed, states are the same."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ttsbench.models.qwen3_tts.config import TransformerConfig
from ttsbench.models.qwen3_tts.transformer import (
    DecoderStack,
    DenseCache,
    RMSNorm,
    grouped_attention,
    rotary_angles,
    rotate,
)

TOY = TransformerConfig(
    hidden_size=24,
    intermediate_size=40,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    rms_norm_eps=1e-6,
    rope_theta=1e4,
    max_positions=64,
)
LENGTH = 13


@pytest.fixture(scope="module")
def stack() -> DecoderStack:
    """Random weights in float64, norms included, so that a norm left out shows."""
    torch.manual_seed(1)
    stack = DecoderStack(TOY).double().requires_grad_(False)
    for weight in stack.parameters():
        weight.copy_(torch.randn_like(weight) * 0.3 + (weight.dim() == 1))
    return stack


def run(stack: DecoderStack, x: Tensor, cuts: list[int]) -> Tensor:
    """Hidden states of `x` [B, T, D], fed in the pieces between `cuts`."""
    cache = DenseCache(TOY, len(x), LENGTH, x)
    outputs = []
    edges = [0, *sorted(cuts), LENGTH]
    for start, end in itertools.pairwise(edges):
        outputs.append(stack.run(x[:, start:end], torch.arange(start, end), cache.attend))
        cache.advance(end - start)
    return torch.cat(outputs, dim=1)


@settings(max_examples=30)
@given(cuts=st.sets(st.integers(1, LENGTH - 1)))
def test_any_split_equals_one_go(stack: DecoderStack, cuts: set[int]) -> None:
    """To break it: let a query see later keys of its own piece, or start the mask at the piece instead of the sequence.

    Float64, so 1e-12 leaves room for other orders of summation and for nothing else.
    """
    x = torch.randn(2, LENGTH, TOY.hidden_size, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    whole = run(stack, x, [])
    assert (run(stack, x, list(cuts)) - whole).abs().max() <= 1e-12 * whole.abs().max()


def test_rows_and_later_inputs_do_not_reach_a_state(stack: DecoderStack) -> None:
    """Causal and row by row: changing what lies behind a position, or another row, leaves its state alone."""
    x = torch.randn(2, LENGTH, TOY.hidden_size, dtype=torch.float64)
    changed = x.clone()
    changed[0, 7:] += 1
    before, after = run(stack, x, []), run(stack, changed, [])
    assert torch.allclose(before[0, :7], after[0, :7], rtol=0, atol=1e-12)
    assert torch.allclose(before[1], after[1], rtol=0, atol=1e-12)
    assert (before[0, 7:] - after[0, 7:]).abs().amax(1).min() > 1e-3


def test_a_full_cache_refuses_more(stack: DecoderStack) -> None:
    x = torch.randn(1, LENGTH + 1, TOY.hidden_size, dtype=torch.float64)
    cache = DenseCache(TOY, 1, LENGTH, x)
    with pytest.raises(RuntimeError, match="size"):
        stack.run(x, torch.arange(LENGTH + 1), cache.attend)


def naive_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Keys and values repeated per query head, then the definition; `mask` [B, T, S]."""
    group = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(group, dim=2), v.repeat_interleave(group, dim=2)
    scores = torch.einsum("bthe,bshe->bhts", q, k) / q.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask[:, None], float("-inf")).softmax(dim=-1)
    return torch.einsum("bhts,bshe->bthe", weights, v)


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize(("steps", "keys"), [(1, 1), (1, 9), (5, 5), (3, 8)])
def test_grouped_attention_equals_attention_with_repeated_heads(kv_heads: int, steps: int, keys: int) -> None:
    """Query heads 0..H/K - 1 share key head 0. To break it: let heads 0, K, 2 K, ... share it, or mask wrongly."""
    q = torch.randn(2, steps, 6, 8, dtype=torch.float64)
    k, v = torch.randn(2, 2, keys, kv_heads, 8, dtype=torch.float64)
    causal = torch.ones(steps, keys, dtype=torch.bool).tril(keys - steps)
    by_row = torch.rand(2, steps, keys) < 0.5
    by_row[..., 0] = True  # every query sees something
    everything = torch.ones(2, steps, keys, dtype=torch.bool)
    for mask, full in ((None, everything), (causal, causal.expand(2, -1, -1)), (by_row, by_row)):
        ours = grouped_attention(q, k, v, mask)
        assert torch.allclose(ours, naive_attention(q, k, v, full), rtol=0, atol=1e-12)


def rotated(x: Tensor, position: int) -> Tensor:
    """Head vectors `x` [heads, E] at one position."""
    cos, sin = rotary_angles(torch.tensor(position), x.shape[-1], 1e4, x.dtype)
    return rotate(x, cos, sin)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_rotated_products_depend_on_distance_alone(query: int, key: int, shift: int) -> None:
    """What makes positions relative. To break it: rotate adjacent pairs with angles laid out for halves.

    Angles are float32: at position 120 they are off by up to 120 * 2**-24 = 7e-6, and the vectors have length 3 or so.
    """
    generator = torch.Generator().manual_seed(3)
    q, k = torch.randn(2, 4, 8, dtype=torch.float64, generator=generator)
    here = (rotated(q, query) * rotated(k, key)).sum(-1)
    there = (rotated(q, query + shift) * rotated(k, key + shift)).sum(-1)
    assert torch.allclose(here, there, rtol=0, atol=5e-4)
    if query == key:
        assert torch.allclose(here, (q * k).sum(-1), rtol=0, atol=5e-4)


def test_rotation_turns_each_pair_of_halves_by_its_own_angle() -> None:
    """Component i and i + E/2 turn by position * theta ** (-2 i / E); position 0 turns nothing."""
    theta, position, width = 1e4, 5, 8
    for i in range(width // 2):
        unit = torch.zeros(1, width, dtype=torch.float64)
        unit[0, i] = 1
        angle = torch.tensor(position * theta ** (-2 * i / width), dtype=torch.float64)
        expected = torch.zeros(1, width, dtype=torch.float64)
        expected[0, i], expected[0, i + width // 2] = angle.cos(), angle.sin()
        assert torch.allclose(rotated(unit, position), expected, rtol=0, atol=1e-6)  # float32 angles
        assert torch.equal(rotated(unit, 0), unit)


def norm_with_weight(width: int, eps: float, dtype: torch.dtype) -> RMSNorm:
    norm = RMSNorm(width, eps).to(dtype).requires_grad_(False)
    norm.weight.copy_(torch.randn(width) * 0.5 + 1)
    return norm


def test_rms_norm_casts_in_the_published_order() -> None:
    """Float32 inside, back to bfloat16, then the weight in bfloat16: bit for bit the published formula.

    Multiplying in float32 before the cast, the usual other order, differs in about one value in four.
    """
    norm = norm_with_weight(128, 1e-6, torch.bfloat16)
    x = (torch.randn(64, 128) * 3).bfloat16()
    wide = x.float()
    normal = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    published = norm.weight * normal.bfloat16()
    other = (norm.weight.float() * normal).bfloat16()
    ours = norm(x)
    assert ours.dtype is torch.bfloat16
    # Two float32 ways to a root differ in the last bit, which moves a rounding to bfloat16 once in 2**16 values or so.
    assert (ours != published).double().mean() < 1e-3
    assert (ours != other).double().mean() > 0.1


def test_rms_norm_uses_its_epsilon() -> None:
    """On tiny inputs the epsilon is all there is: x / sqrt(eps)."""
    x = torch.full((1, 4), 1e-6)
    norm = RMSNorm(4, 1e-2).requires_grad_(False)
    assert torch.allclose(norm(x), x / 0.1, rtol=1e-4, atol=0)


def test_rms_norm_keeps_float64() -> None:
    """Tests of exactness run in float64; a detour through float32 would cost 1e-8."""
    norm = norm_with_weight(16, 1e-6, torch.float64)
    x = torch.randn(3, 16, dtype=torch.float64)
    expected = x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight
    assert torch.allclose(norm(x), expected, rtol=0, atol=1e-14)

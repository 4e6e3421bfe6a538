"""Sine and cosine in a few instructions of a GPU: the libraries' take forty and, for any angle, thirty registers.

The special function unit is off by 5e-7 between -pi and pi. Beyond, its error grows as rounding the angle itself does,
by 6e-8 of the angle; `within_a_turn` brings an exact angle there first.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def approximates(like: Tensor) -> bool:
    """Value of the constexpr APPROXIMATE for work on the device of `like`; false also in the interpreter."""
    return like.is_cuda and torch.version.hip is None


@triton.jit  # type: ignore[untyped-decorator]
def sine(x, APPROXIMATE: tl.constexpr):  # type: ignore[no-untyped-def]
    if APPROXIMATE:
        return tl.inline_asm_elementwise("sin.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        return tl.sin(x)


@triton.jit  # type: ignore[untyped-decorator]
def cosine(x, APPROXIMATE: tl.constexpr):  # type: ignore[no-untyped-def]
    if APPROXIMATE:
        return tl.inline_asm_elementwise("cos.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    else:
        return tl.cos(x)


@triton.jit
def within_a_turn(x):  # type: ignore[no-untyped-def]
    """x less whole turns, between -pi and pi, to 1e-6 for |x| < 2e4.

    Adding and subtracting 1.5 * 2^23 rounds. A turn is subtracted in three parts, the first two short enough that their
    product with the whole number is exact.
    """
    turns = (x * 0.15915494309189535 + 12582912.0) - 12582912.0
    x = x - turns * 6.28125
    x = x - turns * 0.0019350051879882812
    return x - turns * 3.019915982e-07

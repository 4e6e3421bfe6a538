"""Kernels that show the random numbers of the draw kernel; imported where Triton may be."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttsbench.kernels.draw.triton import draw_uniform, uniform_of


@triton.jit
def uniforms_kernel(seeds_ptr, frames_ptr, books_ptr, out_ptr):
    at = tl.program_id(0)
    uniform = draw_uniform(tl.load(seeds_ptr + at), tl.load(frames_ptr + at), tl.load(books_ptr + at))
    tl.store(out_ptr + at, uniform)


@triton.jit
def words_kernel(words_ptr, out_ptr):
    at = tl.program_id(0)
    tl.store(out_ptr + at, uniform_of(tl.load(words_ptr + at).to(tl.uint32)))


def kernel_uniforms(seeds: Tensor, frames: Tensor, books: Tensor) -> Tensor:
    """float32 [n] from int64, int64 and int32 [n]."""
    out = torch.zeros(len(seeds), device=seeds.device)
    uniforms_kernel[(len(seeds),)](seeds, frames, books, out)
    return out


def kernel_uniforms_of(words: Tensor) -> Tensor:
    """float32 [n] from 32-bit words in int64 [n]."""
    out = torch.zeros(len(words), device=words.device)
    words_kernel[(len(words),)](words, out)
    return out

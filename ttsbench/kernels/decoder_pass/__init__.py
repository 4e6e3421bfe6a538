"""A whole decoder stack in one launch: one position of up to 16 rows through layers, final norm and head.

For few rows a pass is as fast as its weights can be read, if nothing stops the reading; separate launches stop it at
each, five times a layer and more. There is no such kernel for a CPU or for other GPUs, so callers ask `unsupported`
first, and run the stack operation by operation where it gives a reason. What is computed: `reference.py`.
"""

from __future__ import annotations

from ttsbench.kernels.decoder_pass.cuda import DecoderPass
from ttsbench.kernels.decoder_pass.shape import MAX_ROWS, Shape, unsupported
from ttsbench.kernels.decoder_pass.types import Layer, Stack

__all__ = ["MAX_ROWS", "DecoderPass", "Layer", "Shape", "Stack", "unsupported"]

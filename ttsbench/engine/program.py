"""The device half of a step as functions of its size alone, over memory at fixed addresses.

    talker      input rows -> hidden states, keys and values into the paged cache
    frame       hidden states -> codes, next inputs, report
    codec       report -> PCM, packed with the report for one copy to the host

Which rows take part is in the control block. Nothing here asks the device a question, so each function can be captured
in a graph; eager and captured steps are these same functions. Sizes: N packed rows, R rows that yield a frame.
"""

from __future__ import annotations

import torch

from ttsbench.engine.attention import KernelAttention, TorchAttention
from ttsbench.engine.control import Control
from ttsbench.engine.frame import FrameStep
from ttsbench.engine.kv_cache import PagedCache
from ttsbench.engine.scheduler import StepPlan
from ttsbench.engine.slot_state import SlotState
from ttsbench.kernels.attention import KVRows
from ttsbench.kernels.fused_linear import Normed
from ttsbench.kernels.pack_frame import pack_frame
from ttsbench.kernels.rms_norm import gathered_rms_norm
from ttsbench.models.qwen3_tts.codec_frame import FrameCodec
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.packed import Attend, PackedTalker


class StepProgram:
    """One set of slots. `max_rows` bounds N, `max_frames` R, and `max_spoken` the R of the codec."""

    def __init__(
        self,
        packed: PackedTalker,
        codec: StreamingCodec,
        cache: PagedCache,
        control: Control,
        state: SlotState,
        max_rows: int,
        max_frames: int,
        max_spoken: int,
    ) -> None:
        device, books, hop = packed.device, packed.num_codebooks, codec.decoder.hop
        self.packed = packed
        self.cache = cache
        self.control = control
        self.frame = FrameStep(packed, state, cache, max_frames)
        self.hidden = torch.zeros((max_rows, packed.talker.config.hidden_size), device=device, dtype=packed.dtype)
        self.codec_input = torch.zeros((max_spoken, books + 2), dtype=torch.int64, device=device)
        self.packed_output = torch.zeros((max_spoken, hop + books + 1), device=device)
        """Of each row of `codec_input`: see `pack_frame`."""
        self._codec = codec
        self._frame_codec = None if device.type == "cpu" else FrameCodec(codec, max_spoken)

    def talker(self, rows: int, plan: StepPlan | None, query_len: int) -> Normed:
        """Hidden states of the first `rows` packed rows. A CPU needs the `plan` that they came from."""
        talker, where = self.packed.talker, self.control.device["kv_slots"][:rows]
        normed, x = gathered_rms_norm(self.cache.inputs, where, talker.layers[0].input_norm, talker.config.rms_norm_eps)
        return talker.run(x, self._attend(rows, plan, query_len), Normed(normed))

    def decode(self, rows: int, plan: StepPlan | None = None) -> None:
        """A step of decode rows alone: each slot has one row, and each row yields a frame."""
        self.frame.run(self.talker(rows, plan, query_len=1))

    def replay(self, rows: int, plan: StepPlan | None = None) -> None:
        """The talker of a decode step without the frame, which was made before: the same keys and values."""
        self.talker(rows, plan, query_len=1)

    def mixed(self, rows: int, plan: StepPlan | None = None) -> None:
        """Talker over decode rows and prompt chunks; up to all rows may be of one slot."""
        self.hidden[:rows] = self.talker(rows, plan, query_len=rows).finished()

    def frame_of_mixed(self, frames: int) -> None:
        """The frames of a mixed step, from the rows that yield one."""
        self.frame.run(self.hidden.index_select(0, self.control.device["finishing"][:frames]))

    def codec(self, frames: int) -> None:
        """PCM of one frame per row of `codec_input`. A row without a valid code 0 decodes another; it is dropped."""
        report = self.codec_input[:frames]
        books = self.packed.num_codebooks
        codes, slots = report[:, :books], report[:, books + 1].contiguous()
        if self._frame_codec is None:
            known = codes.clamp(max=self.packed.codebook_size - 1)
            pcm = self._codec.step(known[:, None], slots).float()
        else:
            pcm = self._frame_codec(codes, slots).float()
        pack_frame(pcm, report, self.packed_output[:frames])

    def _attend(self, rows: int, plan: StepPlan | None, query_len: int) -> Attend:
        where = self._where(rows)
        if plan is None or self.packed.device.type != "cpu":
            return KernelAttention(self.cache, where, query_len)
        return TorchAttention(self.cache, plan, where, self.packed.talker)

    def _where(self, rows: int) -> KVRows:
        """Where the first `rows` packed rows stand."""
        control = self.control.device
        slots, positions, kv_slots = (control[name][:rows] for name in ("slots", "positions", "kv_slots"))
        return KVRows(slots, positions, kv_slots, control["tables"], self.cache.block_size)

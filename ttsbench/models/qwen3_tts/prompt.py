"""The talker's prompt: which row stands where, for every published mode.

A prompt row is text T(id), codec C(id), their sum, or T + a speaker vector. All modes share a header (role, language,
speaker); what follows depends on the text layout and on whether reference speech is in the context:

    header   [instruct]  role x3 | pad..pad, bos  +  think.. language.. speaker.. codec_pad
    streaming            t0 + codec_bos                        then t1.. eos, one per frame
    non-streaming        t0..tn eos + codec_pad.., pad + codec_bos
    in context           reference and target text against codec_bos and the reference frames, side by side or in turn

Source: the published package's `generate` and `generate_icl_prompt`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ttsbench.core import RowError, TextLayout
from ttsbench.models.device import ids_on
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.talker import Talker
from ttsbench.models.qwen3_tts.tokenizer import TextTokenizer


@dataclass(frozen=True)
class Conditioning:
    """A resolved voice: what it adds to the prompt.

    `speaker` [D] is a talker row (a named speaker's embedding or an x-vector); `reference_codes` [R, Q] with
    `reference_text` make in-context cloning; `instruct` is free text before everything else.
    """

    speaker: Tensor | None = None
    reference_codes: Tensor | None = None
    reference_text: str | None = None
    instruct: str | None = None


@dataclass(frozen=True)
class Prompt:
    """Talker input of one request: `rows` [P, D] to prefill, then text rows per frame: `trailing` [T, D], then `pad`.

    `context_codes` [R, Q] are reference frames the codec hears before the first generated frame, or None.
    """

    rows: Tensor
    trailing: Tensor
    pad: Tensor
    context_codes: Tensor | None = None


class PromptBuilder:
    """Arranges prompts for one checkpoint. Pieces that no text changes (role, tags, speakers, pad) are made once."""

    def __init__(self, talker: Talker, config: Qwen3TTSConfig, tokenizer: TextTokenizer) -> None:
        self.talker = talker
        self.config = config
        self.tokenizer = tokenizer
        self._text_pieces: dict[tuple[int, ...], Tensor] = {}
        self._codec_pieces: dict[tuple[int, ...], Tensor] = {}

    def named_speaker(self, key: str) -> Tensor:
        """The embedding row [D] of a speaker in the checkpoint's table (lower-case `key`)."""
        return self._codec(self.config.speakers[key])[0]

    def build(self, text: str, language: str, layout: TextLayout, voice: Conditioning) -> Prompt:
        """Rows for `text` in an effective `language` ("auto" for none). Raises RowError for text without tokens."""
        ids = self._spoken_ids(text, "text")
        header, bos = self._header(language, voice.speaker)
        if voice.reference_codes is None:
            tail, trailing = self._plain_tail(ids, bos, layout)
        else:
            reference = self._spoken_ids(voice.reference_text or "", "reference transcript")
            tail, trailing = self._in_context_tail(reference + ids, bos, voice.reference_codes, layout)
        rows = [*self._instruct(voice.instruct), header, tail]
        return Prompt(torch.cat(rows), trailing, self._fixed_text(self.config.text.tts_pad)[0], voice.reference_codes)

    def _header(self, language: str, speaker: Tensor | None) -> tuple[Tensor, Tensor]:
        """Role and tag rows [7 to 9, D], and the codec bos row [1, D] that is held back for the tail."""
        control, text = self.config.control, self.config.text
        if language == "auto":
            tags = [control.nothink, control.think_bos, control.think_eos]
        else:
            tags = [control.think, control.think_bos, self.config.languages[language], control.think_eos]
        strip = [
            self._codec(*tags),
            *([] if speaker is None else [speaker[None]]),
            self._codec(control.pad, control.bos),
        ]
        codec = torch.cat(strip)
        role = self._fixed_text(text.im_start, self.tokenizer.assistant, self.tokenizer.newline)
        tag_text = self._fixed_text(*[text.tts_pad] * (len(codec) - 2), text.tts_bos)
        return torch.cat((role, tag_text + codec[:-1])), codec[-1:]

    def _plain_tail(self, ids: list[int], bos: Tensor, layout: TextLayout) -> tuple[Tensor, Tensor]:
        spoken = self._text([*ids, self.config.text.tts_eos])
        if layout is TextLayout.STREAMING:
            return spoken[:1] + bos, spoken[1:]
        pad = self._fixed_text(self.config.text.tts_pad)
        return torch.cat((spoken + self._codec(self.config.control.pad), pad + bos)), pad

    def _in_context_tail(self, ids: list[int], bos: Tensor, codes: Tensor, layout: TextLayout) -> tuple[Tensor, Tensor]:
        spoken = self._text([*ids, self.config.text.tts_eos])
        frames = torch.cat((bos, self.talker.embed_frames(codes)))
        pad = self._fixed_text(self.config.text.tts_pad)
        if layout is TextLayout.NON_STREAMING:
            return torch.cat((spoken + self._codec(self.config.control.pad), frames + pad)), pad
        if len(spoken) > len(frames):
            return spoken[: len(frames)] + frames, spoken[len(frames) :]
        padding = pad.expand(len(frames) - len(spoken), -1)
        return torch.cat((spoken, padding)) + frames, pad

    def _instruct(self, instruct: str | None) -> list[Tensor]:
        """The user turn before everything else; none when empty or when this size drops instructions, as published."""
        text = (instruct or "").strip()
        if not text or not self.config.honours_instruct:
            return []
        encode, newline = self.tokenizer.encode, self.tokenizer.newline
        turn = [self.config.text.im_start, *encode("user"), newline, *encode(text), self.config.text.im_end, newline]
        return [self._text(turn)]

    def _spoken_ids(self, text: str, what: str) -> list[int]:
        """Ids of stripped text: a leading newline would fuse with the template's own and shift every row."""
        ids = self.tokenizer.encode(text.strip())
        if not ids:
            raise RowError("empty_text", f"the {what} is empty")
        return ids

    def _text(self, ids: list[int]) -> Tensor:
        return self.talker.embed_text(ids_on(self.talker.codec_head.weight.device, ids))

    def _fixed_text(self, *ids: int) -> Tensor:
        """Rows of text ids that every prompt has; not to be written to."""
        if ids not in self._text_pieces:
            self._text_pieces[ids] = self._text(list(ids))
        return self._text_pieces[ids]

    def _codec(self, *ids: int) -> Tensor:
        """Rows of control, language or speaker ids; not to be written to."""
        if ids not in self._codec_pieces:
            device = self.talker.codec_head.weight.device
            self._codec_pieces[ids] = self.talker.embed_codec(ids_on(device, ids))
        return self._codec_pieces[ids]

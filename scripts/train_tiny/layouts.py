"""Training sequences: which text token, control row and codec frame stands at each position, and what it must predict.

The arrangement is `ttsbench.models.qwen3_tts.prompt`'s, written as arithmetic on positions so that a whole batch is
made on the device in a few operations. H is the header's length, q and m the tokens of reference and target text, R
and F their frames (q = R = 0 without a reference in the context); text stream = reference, target, tts_eos.

    layout         text token i at      bos at         reference frame r at   target frame j is fed at, predicted at
    streaming      H + i                H              H + 1 + r              H + 1 + R + j,  H + R + j
    non-streaming  H + i (with pad)     H + q + m + 1  one after bos + r      one after its prediction

Shapes: B sequences, S positions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from scripts.train_tiny.config import CONTROL_IDS, ENGLISH

NONE = -1
"""Nothing stands here, or nothing is predicted here."""
EOS_TARGET = -2
"""The end of speech is predicted here."""
SPEAKER = -2
"""The control row of the speaker vector, which is no row of the embedding table."""


@dataclass(frozen=True)
class Ids:
    """Ids of one tokenizer and talker vocabulary."""

    role: tuple[int, int, int]
    tts_pad: int
    tts_bos: int
    tts_eos: int
    pad: int = CONTROL_IDS["codec_pad_id"]
    bos: int = CONTROL_IDS["codec_bos_id"]
    eos: int = CONTROL_IDS["codec_eos_token_id"]
    think: int = CONTROL_IDS["codec_think_id"]
    nothink: int = CONTROL_IDS["codec_nothink_id"]
    think_bos: int = CONTROL_IDS["codec_think_bos_id"]
    think_eos: int = CONTROL_IDS["codec_think_eos_id"]
    english: int = ENGLISH


@dataclass(frozen=True)
class Speech:
    """Utterances on the device: `tokens` [sum T] with offsets [U + 1], `frames_at` [U + 1] into the rows of the codes,
    `said` uint8 [sum F] the token of its utterance that each frame speaks or NO_TOKEN. A frame's codes as a reference
    stand `heard` rows further on."""

    tokens: Tensor
    tokens_at: Tensor
    frames_at: Tensor
    said: Tensor
    heard: int = 0

    @property
    def token_counts(self) -> Tensor:
        return self.tokens_at.diff()

    @property
    def frame_counts(self) -> Tensor:
        return self.frames_at.diff()


@dataclass(frozen=True)
class Choice:
    """What to arrange, all [B]: the target utterance; the reference in the context (NONE without one), of which the
    first `skipped` frames are left out and then `frames` frames and the first `tokens` tokens are there (all 0 without
    one); a control id or SPEAKER for the speaker row, and the two flags."""

    target: Tensor
    reference: Tensor
    skipped: Tensor
    frames: Tensor
    tokens: Tensor
    speaker: Tensor
    english: Tensor
    non_streaming: Tensor

    def take(self, index: Tensor) -> Choice:
        """The entries `index` [n]."""
        return Choice(*(getattr(self, field.name)[index] for field in fields(self)))


@dataclass(frozen=True)
class Rows:
    """A batch, all [B, S] int64. `text`: text id or NONE; `control`: codec id, SPEAKER or NONE; `frame`: row of the
    codes that is fed or NONE; `goal`: row of the codes that is predicted, EOS_TARGET or NONE; `focus`: position of the
    token that the predicted frame speaks, or NONE; `history`: 1 where `frame` belongs to the target utterance.

    The frames of a reference are predicted too: who has read along with it knows where its text ends.
    """

    text: Tensor
    control: Tensor
    frame: Tensor
    goal: Tensor
    focus: Tensor
    history: Tensor


def header_length(english: Tensor) -> Tensor:
    """Rows before the text: 9 with a language, 8 without."""
    return 8 + english.long()


def length(speech: Speech, choice: Choice) -> Tensor:
    """Positions [B] of each sequence, up to the one that predicts the end."""
    tokens, frames, past_tokens, past_frames = _counts(speech, choice)
    block = torch.where(choice.non_streaming, past_tokens + tokens + 1, 0)
    return header_length(choice.english) + block + 1 + past_frames + frames


def arrange(speech: Speech, choice: Choice, steps: int, ids: Ids) -> Rows:
    """Rows of `choice`, `steps` positions each; a sequence that is longer is cut."""
    tokens, frames, past_tokens, past_frames = (x[:, None] for x in _counts(speech, choice))
    header = header_length(choice.english)[:, None]
    wide = choice.non_streaming[:, None]
    position = torch.arange(steps, device=header.device).expand(len(choice.target), -1)
    none = torch.full_like(position, NONE)

    i = position - header
    total = past_tokens + tokens
    text = _text(speech, choice, i, total, past_tokens, ids)
    text = torch.where(wide & (i > total), ids.tts_pad, text)

    bos = torch.where(wide, total + 1, 0)
    c = i - bos
    control = torch.where(c == 0, ids.bos, torch.where(wide & (i >= 0) & (i <= total), ids.pad, none))
    text, control = _header(text, control, position, choice, ids)

    past = _span(speech.frames_at, choice.reference) + choice.skipped[:, None] + c
    goal_frame = c - past_frames
    own = speech.frames_at[choice.target][:, None] + goal_frame
    history = (goal_frame >= 1) & (goal_frame <= frames)
    frame = torch.where(history, own - 1, torch.where((c >= 1) & (c <= past_frames), past - 1 + speech.heard, none))
    reading = (c >= 0) & (c < past_frames)
    goal = torch.where(reading, past, torch.where((goal_frame >= 0) & (goal_frame < frames) & (c >= 0), own, none))
    goal = torch.where((goal_frame == frames) & (c >= 0), EOS_TARGET, goal)

    said = speech.said[goal.clamp(min=0)].long()
    focus = header + said + torch.where(reading, 0, past_tokens)
    there = torch.where(reading, past_tokens, tokens)  # of a reference that breaks off, the last tokens are not
    seen = (goal >= 0) & (said < there) & (focus <= position)  # NO_TOKEN is beyond any sentence
    return Rows(text, control, frame, goal, torch.where(seen, focus, none), history.long())


def _counts(speech: Speech, choice: Choice) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens and frames [B] of the targets and of the references in the context."""
    tokens, frames = speech.token_counts[choice.target], speech.frame_counts[choice.target]
    return tokens, frames, choice.tokens, choice.frames


def _span(offsets: Tensor, utterance: Tensor) -> Tensor:
    """First row [B, 1] of each utterance, 0 for none."""
    return torch.where(utterance >= 0, offsets[utterance.clamp(min=0)], 0)[:, None]


def _text(speech: Speech, choice: Choice, i: Tensor, total: Tensor, past_tokens: Tensor, ids: Ids) -> Tensor:
    """Text ids at index `i` of the text stream: reference, target, tts_eos, then tts_pad; NONE before it."""
    past = _span(speech.tokens_at, choice.reference) + i
    own = _span(speech.tokens_at, choice.target) + i - past_tokens
    row = torch.where(i < past_tokens, past, own).clamp(0, len(speech.tokens) - 1)
    text = torch.where(i < total, speech.tokens[row], torch.where(i == total, ids.tts_eos, ids.tts_pad))
    return torch.where(i >= 0, text, NONE)


def _header(text: Tensor, control: Tensor, position: Tensor, choice: Choice, ids: Ids) -> tuple[Tensor, Tensor]:
    """Role, tags, speaker and pad written over the first positions."""
    device = text.device
    tags = torch.tensor(
        [
            [ids.nothink, ids.think_bos, ids.think_eos, NONE],
            [ids.think, ids.think_bos, ids.english, ids.think_eos],
        ],
        device=device,
    )
    header = header_length(choice.english)
    text, control = text.clone(), control.clone()
    text[:, :3] = torch.tensor(ids.role, device=device)
    tag_rows = position < (header - 1)[:, None]
    text = torch.where(tag_rows & (position >= 3), ids.tts_pad, text)
    text = torch.where(position == (header - 1)[:, None], ids.tts_bos, text)
    control[:, 3:7] = tags[choice.english.long()]
    control = torch.where(position == (header - 2)[:, None], choice.speaker[:, None], control)
    return text, torch.where(position == (header - 1)[:, None], ids.pad, control)

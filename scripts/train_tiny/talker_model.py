"""The talker and its code predictor in training: embeddings of whole batches, losses, and two heads that are thrown
away.

Table look-ups are products with one-hot rows: their backward pass is a product too, where the gather's would add row
by row. The predictor sees a sample of the frames.

Two auxiliary losses teach where the speech is in the text. A phoneme head on the talker's state names the teacher's
phonemes of the coming frame. And in the layers `FOCUS_LAYERS` the first query head is rewarded for looking at the
token that the coming frame speaks: without it a small model learns to copy its own history long before it learns to
read.

Shapes: B sequences, S positions, N = B x S, D talker width, Q codebooks, n sampled frames.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scripts.train_tiny.corpus import SLOTS
from scripts.train_tiny.fast_layers import FastStack
from scripts.train_tiny.layouts import EOS_TARGET, SPEAKER, Ids, Rows
from scripts.train_tiny.pace import SYMBOLS
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.models.qwen3_tts.talker import Talker

FOCUS_LAYERS = (3, 5)
SAMPLED_IDS = 2048
"""Ids below this are open to the published sampler, whatever the codebook's size."""
IGNORE = -100


def one_hot(ids: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """[..., rows] with a one at `ids` [...]; nothing where the id is negative."""
    hot = torch.zeros(*ids.shape, rows, device=ids.device, dtype=dtype)
    return hot.scatter_(-1, ids.clamp(min=0)[..., None], (ids >= 0).to(dtype)[..., None])


def initialise(talker: Talker) -> None:
    """Normal weights: 0.04, narrower where a layer adds to the residual, 0.05 for tables; norms stay 1, biases 0."""
    for name, parameter in talker.named_parameters():
        if "norm" in name:
            nn.init.ones_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.normal_(parameter, std=0.015)
        else:
            nn.init.normal_(parameter, std=0.05 if "embedding" in name or "lm_head" in name else 0.04)


@dataclass(frozen=True)
class Corruption:
    """History dropout: a rate per sequence, uniform in (-0.25, 1) times `rate` (of a reference's frames `reference`),
    clipped at 0, of the frames is hit; four fifths of those lose their codes but keep their text, one fifth carry
    another frame's. `swapped` frames everywhere carry another frame's codes. Speaker vectors are moved by noise of
    `vector` times their own size.
    """

    rate: float = 0.7
    reference: float = 0.3
    swapped: float = 0.04
    vector: float = 0.15


class TalkerModel(nn.Module):
    """A `Talker` with its training heads."""

    def __init__(self, config: Qwen3TTSConfig, talker: Talker, ids: Ids, dropout: float, compiled: bool) -> None:
        super().__init__()
        self.config = config
        self.talker = talker
        self.phoneme_head = nn.Linear(config.talker.hidden_size, SLOTS * SYMBOLS)
        self.ids = ids
        self._trunk = FastStack(talker.model, dropout, compiled)
        self._predictor = FastStack(talker.code_predictor.model, dropout, compiled)
        controls = (ids.pad, ids.bos, ids.think, ids.nothink, ids.think_bos, ids.think_eos, ids.english)
        table = torch.full((config.talker_vocab_size + 1,), -1)
        rows = [*controls, *sorted(config.speakers.values())]
        table[torch.tensor(rows)] = torch.arange(len(rows))
        self.register_buffer("control_rows", torch.tensor(rows), persistent=False)
        self.register_buffer("control_index", table, persistent=False)  # the last entry serves negative ids

    def embed(self, rows: Rows, codes: Tensor, heard: Tensor, speakers: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Input rows [N, D]: text, control or speaker row [B, D], and codes [B, S, Q] where `heard` [B, S]."""
        talker, size = self.talker, self.config.codebook_size
        table = talker.text_projection(talker.model.text_embedding.weight).to(dtype)
        x = one_hot(rows.text, table.shape[0], dtype) @ table
        controls = talker.model.codec_embedding.weight.index_select(0, self.get_buffer("control_rows")).to(dtype)
        control = self.get_buffer("control_index")[rows.control.clamp(min=-1)]
        x = x + one_hot(control, controls.shape[0], dtype) @ controls
        if speakers is not None:
            x = x + (rows.control == SPEAKER)[..., None].to(dtype) * speakers[:, None].to(dtype)
        hot = torch.zeros(*heard.shape, codes.shape[2] * size, device=x.device, dtype=dtype)
        offsets = torch.arange(codes.shape[2], device=x.device) * size
        hot.scatter_(-1, codes + offsets, heard.to(dtype)[..., None].expand(codes.shape))
        return (x + hot @ self._frame_table().to(dtype)).flatten(0, 1)

    def trunk(self, x: Tensor, batch: int, focus: Focus | None = None, training: bool = True) -> Tensor:
        """Hidden states [N, D]."""
        return self._trunk(x, batch, focus.watch if focus else None, training)

    def code_logits(self, hidden: Tensor) -> Tensor:
        """Logits [N, codebook size + 2]: the first code, the end of speech, and all idle rows together.

        Samplers ban no id below 2048, so the rows between the codebook's size and there must learn to be unlikely. They
        are one row in training, counted as often as it will be copied (`spread_idle_rows`).
        """
        head, size = self.talker.codec_head.weight, self.config.codebook_size
        weight = torch.cat((head[:size], head[self.ids.eos : self.ids.eos + 1], head[size : size + 1]))
        logits = F.linear(hidden, weight.to(hidden.dtype)).float()
        return torch.cat((logits[:, :-1], logits[:, -1:] + math.log(SAMPLED_IDS - size)), dim=1)

    @torch.no_grad()
    def spread_idle_rows(self) -> None:
        """Copy the trained idle row over all of them; call it before weights are written for use."""
        head, size = self.talker.codec_head.weight, self.config.codebook_size
        head[size:] = torch.where(
            (torch.arange(size, len(head), device=head.device) == self.ids.eos)[:, None], head[size:], head[size]
        )

    def predictor_logits(self, hidden: Tensor, codes: Tensor, training: bool = True) -> Tensor:
        """Logits [n, Q - 1, codebook size] of a frame's later codes, from the states [n, D] that predicted its first
        and the codes [n, Q] that are fed back."""
        predictor, size, dtype = self.talker.code_predictor, self.config.codebook_size, hidden.dtype
        books = codes.shape[1] - 1
        table = self._frame_table().view(books + 1, size, -1)[:books].to(dtype)
        fed = torch.einsum("nqv,qvd->nqd", one_hot(codes[:, :books], size, dtype), table)
        x = torch.cat((hidden[:, None], fed), dim=1)
        project = predictor.small_to_mtp_projection
        x = F.linear(x, project.weight.to(dtype), project.bias.to(dtype)) if isinstance(project, nn.Linear) else x
        out = self._predictor(x.flatten(0, 1), len(x), None, training).view(len(x), books + 1, -1)[:, 1:]
        heads = torch.stack([head.get_parameter("weight") for head in predictor.lm_head]).to(dtype)
        return torch.einsum("nqd,qvd->nqv", out, heads).float()

    def _frame_table(self) -> Tensor:
        """All code embeddings [Q * codebook size, D] in codebook order."""
        first = self.talker.model.codec_embedding.weight[: self.config.codebook_size]
        later = self.talker.code_predictor.model.codec_embedding
        return torch.cat([first, *(table.get_parameter("weight") for table in later)])


class Focus:
    """Collects how little the first head of the focus layers looks at the spoken token."""

    def __init__(self, rows: Rows) -> None:
        self._key = rows.focus.clamp(min=0)
        self._wanted = rows.focus >= 0
        self.losses: list[Tensor] = []
        self.hits: list[Tensor] = []

    def watch(self, layer: int, q: Tensor, k: Tensor) -> None:
        """Adds -log of the attention on the wanted key, the mean over the positions that want one."""
        if layer not in FOCUS_LAYERS:
            return
        scores = (q[:, :, 0] @ k[:, :, 0].transpose(1, 2)).float() * q.shape[-1] ** -0.5
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
        log_weights = scores.masked_fill(hidden, -torch.inf).log_softmax(-1)
        found = log_weights.gather(2, self._key[..., None])[..., 0]
        count = self._wanted.sum().clamp(min=1)
        self.losses.append(-torch.where(self._wanted, found, 0.0).sum() / count)
        with torch.no_grad():
            self.hits.append(((log_weights.argmax(-1) == self._key) & self._wanted).sum() / count)


@dataclass(frozen=True)
class Losses:
    """Means in nats, and shares right; all scalars on the device. `books` [Q - 1] is by codebook."""

    first: Tensor
    books: Tensor
    phonemes: Tensor
    focus: Tensor
    first_right: Tensor
    phonemes_right: Tensor
    focus_right: Tensor

    def total(self, phoneme_weight: float, focus_weight: float) -> Tensor:
        """What training minimises."""
        return self.first + self.books.mean() + phoneme_weight * self.phonemes + focus_weight * self.focus


def losses(
    model: TalkerModel,
    rows: Rows,
    codes: Tensor,
    labels: Tensor,
    sampled: Tensor,
    speakers: Tensor | None,
    dtype: torch.dtype,
    corruption: Corruption | None,
) -> Losses:
    """Losses of one batch. `codes` [rows, Q] and `labels` [rows, SLOTS] of the corpus; `sampled` [n] flat positions
    whose goal is a frame, for the predictor; `corruption` None measures with the true history."""
    fed, heard = codes[rows.frame.clamp(min=0)].long(), rows.frame >= 0
    if corruption is not None:
        fed, heard = corrupt(fed, heard, rows.history > 0, corruption)
        speakers = None if speakers is None else moved(speakers, corruption.vector)
    training = corruption is not None
    x = model.embed(rows, fed, heard, speakers, dtype)
    focus = Focus(rows)
    hidden = model.trunk(x, len(rows.text), focus, training)

    goal = rows.goal.flatten()
    wanted = codes[goal.clamp(min=0)].long()
    first = torch.where(goal >= 0, wanted[:, 0], IGNORE)
    first = torch.where(goal == EOS_TARGET, model.config.codebook_size, first)
    logits = model.code_logits(hidden)
    slots = F.linear(hidden, model.phoneme_head.weight.to(dtype), model.phoneme_head.bias.to(dtype)).float()
    slots = slots.view(-1, SYMBOLS)
    phonemes = torch.where((goal >= 0)[:, None], labels[goal.clamp(min=0)].long(), IGNORE).flatten()

    truth = wanted[sampled]
    shown = truth
    if corruption is not None:
        noise = torch.randint_like(truth, model.config.codebook_size)
        shown = torch.where(torch.rand(truth.shape, device=truth.device) < corruption.swapped, noise, truth)
        shown = torch.cat((truth[:, :1], shown[:, 1:]), dim=1)
    later = model.predictor_logits(hidden[sampled], shown, training)
    books = F.cross_entropy(later.transpose(1, 2), truth[:, 1:], reduction="none").mean(0)
    return Losses(
        first=F.cross_entropy(logits, first, ignore_index=IGNORE),
        books=books,
        phonemes=F.cross_entropy(slots, phonemes, ignore_index=IGNORE),
        focus=torch.stack(focus.losses).mean(),
        first_right=_share(logits, first),
        phonemes_right=_share(slots, phonemes),
        focus_right=torch.stack(focus.hits).max(),
    )


def _share(logits: Tensor, wanted: Tensor) -> Tensor:
    counted = wanted >= 0
    return ((logits.detach().argmax(-1) == wanted) & counted).sum() / counted.sum().clamp(min=1)


def corrupt(codes: Tensor, heard: Tensor, own: Tensor, corruption: Corruption) -> tuple[Tensor, Tensor]:
    """History dropout on `codes` [B, S, Q] where they are `heard` [B, S]; `own` [B, S] are the target's frames."""
    device = heard.device
    most = corruption.reference + own * (corruption.rate - corruption.reference)
    rate = (torch.rand(len(heard), 1, device=device) * 1.25 - 0.25).clamp(min=0) * most
    hit = (torch.rand(heard.shape, device=device) < rate) & heard
    swapped = (torch.rand(heard.shape, device=device) < corruption.swapped) & heard
    swapped = swapped | (hit & (torch.rand(heard.shape, device=device) < 0.2))
    flat = codes.reshape(-1, codes.shape[2])
    other = flat[torch.randint(0, len(flat), (len(flat),), device=device)].view(codes.shape)
    return torch.where(swapped[..., None], other, codes), heard & ~(hit & ~swapped)


def moved(vectors: Tensor, amount: float) -> Tensor:
    """`vectors` [B, D] with noise of `amount` times their root mean square."""
    return vectors + amount * vectors.square().mean(1, keepdim=True).sqrt() * torch.randn_like(vectors)

"""Trains the speaker encoder of `tiny-base`: a clip of any voice -> one vector, which the talker reads as an input row.

    python -m scripts.train_tiny.train_speaker --teacher TEACHER --scratch SHARDS --out RUN --seconds 50

Each step draws voices and two utterances of each, cuts a stretch of 1.5 to 4 s out of both, changes its level and adds
a little noise. `--echoes` names kinds whose utterances are heard once more as `echo_shards` wrote them: spoken by the
codec, in the same voices. Three losses:

    contrast   a stretch must be nearer (cosine) to the other of its voice than to those of the other voices
    style      a linear head reads off the vector where the voice lies in the span of the teacher's own voices. This
               keeps the space smooth where no voice was heard. The head is thrown away.
    size       vectors keep one length, since they are used as they come out, without normalisation

Writes `RUN/speaker.safetensors`, the module's state dict under its published names, scaled so that the mean vector
length is that of `--rms` an element, and `RUN/speaker.jsonl`, whose figures are of voices left out of training: as
spoken, and with `echo_` as echoed.

Shapes: U utterances, V voices, B stretches, S samples, T mel frames, M mel bins, D vector width.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from scripts.train_tiny import config
from scripts.train_tiny.corpus import Shard, echo_path, load_shard, save_tensors, shards
from scripts.train_tiny.loop import Budget, Training, adamw, cosine, graphed
from scripts.train_tiny.voices import OWN, Voices, is_held
from ttsbench.models.qwen3_tts.mel import HOP, LOG_FLOOR, MAGNITUDE_FLOOR, N_FFT, PAD, filterbank
from ttsbench.models.qwen3_tts.speaker_encoder import SpeakerEncoder

RATE_HZ = config.SAMPLE_RATE_HZ
STRETCH_S = (1.5, 2.0, 3.0, 4.0)
"""Lengths take turns; a shorter utterance is heard again from its start."""
HEARD_S = 3.0
"""Of each utterance in the held-out figures."""
GAIN_DB = 9.0
NOISE_DBFS = (-90.0, -45.0)
STYLE_VARIANCE = 0.98
"""Share of the variance of the teacher's own voices that the kept components hold."""
PEAK_RATE = 2e-3
MAX_GRADIENT = 5.0
STYLE_WEIGHT, SIZE_WEIGHT = 1.0, 0.1


@dataclass(frozen=True)
class Bank:
    """Every utterance on the device. A voice is its number among those present; `rows` says which that is."""

    audio: Tensor
    """int16 [samples of all]."""
    start: Tensor
    """First sample [U]."""
    length: Tensor
    """Samples [U]."""
    voice: Tensor
    """[U]."""
    rows: Tensor
    """Row of `Voices` [V]."""
    voices: Tensor
    """The voices to train on: none that is held out, and none that has not two utterances to compare."""
    ordered: Tensor
    """Utterances by voice; voice v has `count[v]` of them from `first[v]` on."""
    first: Tensor
    count: Tensor
    held_out: Tensor
    """Utterances of the held-out voices, as spoken."""
    held_out_echoes: Tensor
    """Those of them that were echoed, apart: an utterance and its echo would find each other."""


def echoed(paths: Iterable[Path], device: torch.device) -> Iterator[Shard]:
    """The shards `paths` in the sound of the codec's decoder. Raises ValueError when that is of other utterances."""
    for path in paths:
        shard, echo = load_shard(path, device), load_file(echo_path(path), device=str(device))["audio"]
        if echo.shape != shard.audio.shape:
            raise ValueError(f"{echo_path(path)}: audio {list(echo.shape)}, the shard has {list(shard.audio.shape)}")
        yield replace(shard, audio=echo)


def collect(parts: Iterable[Shard], echoes: Iterable[Shard] = ()) -> Bank:
    """All shards as one bank, `echoes` last. Raises ValueError when no voice can be trained on."""
    audio, frames, voice, is_echo = [], [], [], []
    for again, some in ((False, parts), (True, echoes)):
        for part in some:
            audio.append(part.audio)
            frames.append(part.frames.long())
            voice.append(part.voice.long())
            is_echo.append(torch.full_like(part.voice, again, dtype=torch.bool))
    hop = audio[0].shape[1]
    length = torch.cat(frames) * hop
    rows, numbered = torch.unique(torch.cat(voice), return_inverse=True)
    count = numbered.bincount()
    held = is_held(rows)
    voices = (~held & (count > 1)).nonzero()[:, 0]
    if not len(voices):
        raise ValueError("no voice to train on has two utterances")
    out, echo = held[numbered], torch.cat(is_echo)
    return Bank(
        audio=torch.cat(audio).flatten(), start=length.cumsum(0) - length, length=length, voice=numbered, rows=rows,
        voices=voices, ordered=numbered.argsort(stable=True), first=count.cumsum(0) - count, count=count,
        held_out=(out & ~echo).nonzero()[:, 0], held_out_echoes=(out & echo).nonzero()[:, 0],
    )  # fmt: skip


def stretch(bank: Bank, utterances: Tensor, samples: int, where: Tensor) -> Tensor:
    """Float [B, samples] from the place `where` (0 to 1) of each utterance on, going round where it ends."""
    length = bank.length[utterances, None]
    position = (where[:, None] * length).long() + torch.arange(samples, device=where.device)
    return bank.audio[bank.start[utterances, None] + position % length].float() / 32768


def disturbed(wav: Tensor) -> Tensor:
    """Each stretch at another level, up to GAIN_DB up or down, over white noise of its own level."""
    draw = torch.rand(2, len(wav), 1, device=wav.device)
    quiet, loud = NOISE_DBFS
    noise = 10 ** ((quiet + (loud - quiet) * draw[0]) / 20) * torch.randn_like(wav)
    return wav * 10 ** (GAIN_DB * (2 * draw[1] - 1) / 20) + noise


class RowsOfMel:
    """`ttsbench.models.qwen3_tts.mel.log_mel` for a batch, its constants on the device before a graph is captured."""

    def __init__(self, bins: int, device: torch.device) -> None:
        self._window = torch.hann_window(N_FFT, device=device)
        self._filters = filterbank(bins, RATE_HZ).to(device)

    def __call__(self, wav: Tensor) -> Tensor:
        """Log mel [B, T, M] of `wav` [B, S]."""
        padded = F.pad(wav, (PAD, PAD), mode="reflect")
        spectrum = torch.stft(padded, N_FFT, HOP, window=self._window, center=False, return_complex=True)
        magnitude = (spectrum.real.square() + spectrum.imag.square() + MAGNITUDE_FLOOR).sqrt()
        return (self._filters @ magnitude).clamp(min=LOG_FLOOR).log().transpose(1, 2)


class Heads(nn.Module):
    """What training needs and the checkpoint does not."""

    def __init__(self, width: int, components: int) -> None:
        super().__init__()
        self.style = nn.Linear(width, components)
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))


def style_targets(voices: Voices) -> Tensor:
    """Place [rows, components] of each voice in the span of the teacher's own, where those have variance 1."""
    styles = voices.mean_style(torch.arange(len(voices)))
    own = styles[:OWN]
    _, singular, directions = torch.linalg.svd(own - own.mean(0), full_matrices=False)
    share = singular.square().cumsum(0) / singular.square().sum()
    kept = int((share < STYLE_VARIANCE).sum()) + 1
    return (styles - own.mean(0)) @ directions[:kept].T / singular[:kept] * math.sqrt(len(own))


@torch.no_grad()
def initialise(encoder: SpeakerEncoder, mel: Tensor, length: float) -> None:
    """Start with vectors that differ: no layer of the architecture normalises, and log mels have a large mean.

    ReLU layers get He's initialisation, the first one reads each bin of `mel` [B, T, M] less its mean over its
    deviation, and the last one gives vectors of this mean `length` around zero.
    """
    convolutions = [module for module in encoder.modules() if isinstance(module, nn.Conv1d)]
    for convolution in convolutions:
        weight, bias = weight_and_bias(convolution)
        nn.init.kaiming_normal_(weight, nonlinearity="relu")
        nn.init.zeros_(bias)
    weight, bias = weight_and_bias(convolutions[0])
    weight.div_(mel.std((0, 1))[:, None])
    bias.sub_((weight * mel.mean((0, 1))[:, None]).sum((1, 2)))
    vectors = encoder(mel)
    weight, bias = weight_and_bias(encoder.fc)
    bias.sub_(vectors.mean(0))
    scale(encoder.fc, length / (vectors - vectors.mean(0)).norm(dim=1).mean())


def weight_and_bias(convolution: nn.Conv1d) -> tuple[Tensor, Tensor]:
    """Every convolution of the encoder has both."""
    assert convolution.bias is not None
    return convolution.weight, convolution.bias


@torch.no_grad()
def scale(last: nn.Conv1d, factor: Tensor) -> None:
    """Make the vectors so many times longer."""
    for parameter in weight_and_bias(last):
        parameter.mul_(factor)


class SpeakerTraining:
    """Encoder, heads and data, and what one step does with them."""

    def __init__(self, encoder: SpeakerEncoder, bank: Bank, targets: Tensor, voices: int, rms: float) -> None:
        device = bank.audio.device
        self.encoder = encoder.to(device)
        self.heads = Heads(encoder.config.enc_dim, targets.shape[1]).to(device)
        self.bank = bank
        self.mel = RowsOfMel(encoder.config.mel_dim, device)
        self.vector_length = rms * math.sqrt(encoder.config.enc_dim)
        self.loss = {name: torch.zeros((), device=device) for name in ("contrast", "style", "size")}
        self._targets = targets.to(device)[bank.rows]
        self._voices = min(voices, len(bank.voices))
        self._labels = torch.arange(self._voices, device=device)
        # the pooling takes its tanh in place of a result that the backward pass of its ReLU needs
        self.encoder.asp.tdnn.register_forward_hook(lambda module, inputs, output: output.clone())
        some = self._two_utterances(bank.voices[torch.randint(len(bank.voices), (64,), device=device)])[0]
        heard = disturbed(stretch(bank, some, round(HEARD_S * RATE_HZ), torch.zeros_like(some).float()))
        initialise(self.encoder, self.mel(heard), self.vector_length)

    def losses(self, samples: int) -> dict[str, Tensor]:
        """The three losses of freshly drawn voices at one stretch length."""
        draw = torch.rand(len(self.bank.voices), device=self._labels.device)
        voices = self.bank.voices[draw.topk(self._voices).indices]
        pairs = self._two_utterances(voices).flatten()
        wav = disturbed(stretch(self.bank, pairs, samples, torch.rand(len(pairs), device=pairs.device)))
        mel = self.mel(wav)
        with torch.autocast(mel.device.type, torch.bfloat16, mel.is_cuda, cache_enabled=False):
            vectors = self.encoder(mel)
        vectors = vectors.float()
        directions = F.normalize(vectors, dim=1)
        one, other = directions.chunk(2)
        logits = self.heads.log_scale.exp().clamp(max=50) * one @ other.T
        read = self.heads.style(directions * math.sqrt(vectors.shape[1]))
        return {
            "contrast": (F.cross_entropy(logits, self._labels) + F.cross_entropy(logits.T, self._labels)) / 2,
            "style": F.mse_loss(read, self._targets[voices].repeat(2, 1)),
            "size": (vectors.norm(dim=1) / self.vector_length - 1).square().mean(),
        }

    def _two_utterances(self, voices: Tensor) -> Tensor:
        """Two different utterances [2, V] of each of these voices."""
        draw = torch.rand(2, len(voices), device=voices.device)
        count = self.bank.count[voices]
        one = (draw[0] * count).long()
        other = (one + 1 + (draw[1] * (count - 1)).long()) % count
        return self.bank.ordered[self.bank.first[voices] + torch.stack([one, other])]

    def step(self, samples: int, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
        """One step at one stretch length, fit to be captured."""

        def take() -> None:
            optimizer.zero_grad(set_to_none=True)
            loss = self.losses(samples)
            torch.autograd.backward(loss["contrast"] + STYLE_WEIGHT * loss["style"] + SIZE_WEIGHT * loss["size"])
            nn.utils.clip_grad_norm_(self.encoder.parameters(), MAX_GRADIENT)
            optimizer.step()
            for name, value in loss.items():
                self.loss[name].copy_(value.detach())

        return graphed(take)

    def rescale(self) -> None:
        """Give the vectors their exact mean length; the last layer is linear, so nothing else changes."""
        vectors = vectors_of(self.encoder, self.bank, thinned(self.bank.ordered))
        scale(self.encoder.fc, self.vector_length / vectors.norm(dim=1).mean())


def thinned(utterances: Tensor, at_most: int = 4000) -> Tensor:
    """Every so-manieth of these utterances; they stand by voice, so all voices stay."""
    return utterances[:: -(-len(utterances) // at_most)]


@torch.no_grad()
def vectors_of(encoder: SpeakerEncoder, bank: Bank, utterances: Tensor, batch: int = 256) -> Tensor:
    """Vectors [U, D] of the first HEARD_S of these utterances, undisturbed, in float32."""
    mel = RowsOfMel(encoder.config.mel_dim, utterances.device)
    vectors = []
    for at in range(0, len(utterances), batch):
        part = utterances[at : at + batch]
        vectors.append(encoder(mel(stretch(bank, part, round(HEARD_S * RATE_HZ), torch.zeros_like(part).float()))))
    return torch.cat(vectors)


def held_out_figures(encoder: SpeakerEncoder, bank: Bank, utterances: Tensor) -> dict[str, float]:
    """How well `utterances` of voices that were never trained on find their own voice among those.

    Each is compared with the mean of the others of its voice and with the means of the other voices: `nearest_pct` are
    right; mean cosine to the own mean and to the nearest other one; spread of the vectors' lengths. Empty without two
    such voices.
    """
    voices, voice = torch.unique(bank.voice[utterances], return_inverse=True)
    if len(voices) < 2:
        return {}
    vectors = vectors_of(encoder, bank, utterances)
    directions = F.normalize(vectors, dim=1)
    sums = torch.zeros(len(voices), vectors.shape[1], device=voice.device).index_add_(0, voice, directions)
    cosine_to = directions @ F.normalize(sums, dim=1).T
    own = (directions * F.normalize(sums[voice] - directions, dim=1)).sum(1)
    other = cosine_to.scatter(1, voice[:, None], -2).amax(1)
    figures = {
        "nearest_pct": 100 * (own > other).float().mean(),
        "own_cosine": own.mean(),
        "next_cosine": other.mean(),
        "length_spread": vectors.norm(dim=1).std() / vectors.norm(dim=1).mean(),
    }
    return {name: float(value) for name, value in figures.items()}


def train(run: SpeakerTraining, out: Path, budget: Budget) -> None:
    """Train to the end of the budget and write the encoder."""
    modules = {"encoder": run.encoder, "heads": run.heads}
    optimizer, rate = adamw(modules, (0.9, 0.98), 0.02)
    training = Training("speaker", out, budget, {**modules, "optimizer": optimizer})
    steps = [run.step(round(seconds * RATE_HZ), optimizer) for seconds in STRETCH_S]
    for progress in training:
        rate.fill_(cosine(progress, PEAK_RATE))
        steps[training.step % len(steps)]()
        if training.due():
            training.log(**{name: float(value) for name, value in run.loss.items()})
    run.rescale()
    echoes = held_out_figures(run.encoder, run.bank, run.bank.held_out_echoes)
    spoken = held_out_figures(run.encoder, run.bank, run.bank.held_out)
    training.log(**spoken, **{f"echo_{name}": value for name, value in echoes.items()})
    save_tensors(out / "speaker.safetensors", run.encoder.state_dict())


def to_echo(paths: dict[str, list[Path]], kinds: list[str]) -> list[Path]:
    """Shards of these `kinds` among `paths` by kind. Raises SystemExit when one has no echo."""
    if unheard := [kind for kind in kinds if kind not in paths]:
        raise SystemExit(f"--echoes {' '.join(unheard)}: not among --kinds {' '.join(paths)}")
    found = [path for kind in kinds for path in paths[kind]]
    if missing := [echo_path(path).name for path in found if not echo_path(path).exists()]:
        raise SystemExit(f"--echoes {' '.join(kinds)}: no {', '.join(missing)}; echo_shards makes them")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--teacher", type=Path, required=True, help="the TEACHER folder: part1/voices.npz has the styles"
    )
    parser.add_argument("--scratch", type=Path, required=True, help="folder of the shards")
    parser.add_argument("--kinds", nargs="+", default=["many", "reference"])
    parser.add_argument("--echoes", nargs="+", default=[], help="those of the kinds to hear through the codec as well")
    parser.add_argument("--shards", type=int, help="at most so many of each kind")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--voices", type=int, default=128, help="voices a step")
    parser.add_argument("--rms", type=float, default=0.5, help="of an element of a vector")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    paths = {kind: shards(options.scratch, kind)[: options.shards] for kind in options.kinds}
    again = to_echo(paths, options.echoes)
    bank = collect((load_shard(path, device) for path in chain(*paths.values())), echoed(again, device))
    encoder = config.speaker_encoder()
    targets = style_targets(Voices(options.teacher, "cpu", int(bank.rows.max()) + 1))
    run = SpeakerTraining(encoder, bank, targets, options.voices, options.rms)
    train(run, options.out, Budget(options.steps, options.seconds))


if __name__ == "__main__":
    main()

"""Our model against the golden files of the official package: one number per comparison, shared by tests and docs.

The error of a comparison is the largest relative error of any of its rows: max |ours - theirs| / max |theirs| within
a row. Codes must be equal, so their error is the share of codes that differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ttsbench.assets import asset_folder
from ttsbench.core import DrawParams, NamedVoice, TextLayout
from ttsbench.kernels.draw.cases import settings_of
from ttsbench.kernels.draw.reference import distribution, forbid, penalise_repeats
from ttsbench.kernels.draw.types import RowDraws
from ttsbench.models.qwen3_tts.checkpoint import Checkpoint
from ttsbench.models.qwen3_tts.mel import log_mel
from ttsbench.models.qwen3_tts.prompt import Conditioning, Prompt
from ttsbench.models.qwen3_tts.transformer import DenseCache
from ttsbench.models.qwen3_tts.voices import effective_language, speaker_key
from ttsbench.models.source import EMBEDDED

GOLDEN = Path(__file__).parents[2] / "golden"


@dataclass(frozen=True)
class Check:
    """One comparison: what, on which case, and how far off."""

    what: str
    case: str
    error: float


@cache
def golden(name: str) -> dict[str, Tensor]:
    return load_file(GOLDEN / f"{name}.safetensors")


@cache
def toy(name: str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Checkpoint:
    folder = asset_folder(name) if name in EMBEDDED else GOLDEN / name
    return Checkpoint.load(folder, torch.device(device), dtype)


@cache
def cases() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads((GOLDEN / "cases.json").read_text()))


@cache
def embedded_utterances(name: str) -> tuple[dict[str, Any], ...]:
    """The official package's greedy utterances of an embedded checkpoint."""
    return tuple(json.loads((GOLDEN / f"{name}_greedy.json").read_text())["utterances"])


def row_error(ours: Tensor, theirs: Tensor) -> float:
    """Largest relative error of any row; a shape that differs is an infinite one."""
    if ours.shape != theirs.shape:
        return float("inf")
    ours, theirs = ours.double().reshape(len(ours), -1), theirs.double().reshape(len(theirs), -1)
    return float(((ours - theirs).abs().amax(1) / theirs.abs().amax(1).clamp(min=1e-12)).max())


def code_error(ours: Tensor, theirs: Tensor) -> float:
    """Share of codes that differ; a length that differs is an infinite error."""
    return float("inf") if ours.shape != theirs.shape else float((ours != theirs).double().mean())


def waveform(pcm16: Tensor) -> Tensor:
    return pcm16.float() / 32768


def conditioning(checkpoint: Checkpoint, case: dict[str, Any]) -> Conditioning:
    """The voice of a case, its clip encoded by our own encoders."""
    if case["speaker"] is not None:
        return Conditioning(checkpoint.prompts.named_speaker(speaker_key(case["speaker"])), instruct=case["instruct"])
    if case["reference"] is None:
        return Conditioning(instruct=case["instruct"])
    return cloned(checkpoint, waveform(golden("prompts")[f"reference.{case['reference']}.pcm16"]), case["ref_text"])


def cloned(checkpoint: Checkpoint, wav: Tensor, ref_text: str | None) -> Conditioning:
    """The voice of a clip, in context where its words are given."""
    encoder = checkpoint.model.speaker_encoder
    assert encoder is not None
    codes = checkpoint.codec.encoder.encode(wav) if ref_text is not None else None
    return Conditioning(encoder.embed(wav), codes, ref_text)


def text_layout(entry: dict[str, Any]) -> TextLayout:
    return TextLayout.NON_STREAMING if entry["non_streaming_mode"] else TextLayout.STREAMING


def build_prompt(case: dict[str, Any]) -> Prompt:
    checkpoint = toy(case["toy"])
    voice = NamedVoice(case["speaker"] or "")
    language = effective_language(checkpoint.config, case["language"], voice)
    return checkpoint.prompts.build(case["text"], language, text_layout(case), conditioning(checkpoint, case))


def embedded_prompt(name: str, entry: dict[str, Any]) -> Prompt:
    import soundfile as sf  # missing where only a GPU is to be tried

    checkpoint = toy(name)
    if "voice" in entry:
        voice = Conditioning(checkpoint.prompts.named_speaker(entry["voice"]))
    else:
        clip = asset_folder("mini_en") / "en" / entry["clip"]
        voice = cloned(checkpoint, torch.from_numpy(sf.read(clip, dtype="float32")[0]), entry["ref_text"])
    return checkpoint.prompts.build(entry["text"], entry["language"], text_layout(entry), voice)


class GreedyTalker:
    """The plain way to run the talker: one sequence, a dense cache, published order of processors, argmax."""

    def __init__(self, checkpoint: Checkpoint, prompt: Prompt, penalty: float) -> None:
        self.config = checkpoint.config
        self.talker = checkpoint.model.talker
        self.prompt = prompt
        self.penalty = torch.tensor([penalty])
        self.cache = DenseCache(self.config.talker, 1, len(prompt.rows) + 512, prompt.rows)
        self.hidden = self.feed(prompt.rows)

    def feed(self, rows: Tensor) -> Tensor:
        """Hidden states [T, D] of the next T input rows."""
        positions = torch.arange(self.cache.length, self.cache.length + len(rows))
        hidden = self.talker(rows[None], positions[None], self.cache.attend)
        self.cache.advance(len(rows))
        return hidden[0]

    def next_input(self, codes: Tensor, frame: int) -> Tensor:
        text = self.prompt.trailing[frame] if frame < len(self.prompt.trailing) else self.prompt.pad
        return self.talker.embed_frames(codes[None]) + text

    def utterance(self, max_frames: int, min_frames: int = 2) -> Tensor:
        """Greedy codes [F, Q]."""
        seen = torch.zeros(1, self.config.talker_vocab_size, dtype=torch.bool)
        ids = torch.arange(self.config.talker_vocab_size)
        control = (ids >= self.config.first_control_id) & (ids != self.config.control.eos)
        hidden, frames = self.hidden[-1:], []
        for frame in range(max_frames):
            logits = forbid(penalise_repeats(self.talker.logits(hidden), seen, self.penalty), control)
            first = forbid(logits, (ids == self.config.control.eos) & (frame < min_frames)).argmax(-1)
            if int(first) == self.config.control.eos:
                break
            rest = self.talker.code_predictor(hidden, self.talker.embed_codec(first), lambda _, x: x.argmax(-1))
            frames.append(torch.cat((first, rest[0])))
            seen[0, first] = True
            hidden = self.feed(self.next_input(frames[-1], frame))
        return torch.stack(frames) if frames else torch.zeros(0, self.config.num_codebooks, dtype=torch.int64)


@torch.inference_mode()
def check_prompts() -> Iterator[Check]:
    """Every mode's prompt rows and trailing text."""
    stored = golden("prompts")
    for case in cases():
        prompt, name = build_prompt(case), case["name"]
        yield Check("prompt embeddings", name, row_error(prompt.rows, stored[f"{name}.inputs_embeds"]))
        yield Check("trailing text", name, row_error(prompt.trailing, stored[f"{name}.trailing"]))
        yield Check("text pad", name, row_error(prompt.pad[None], stored[f"{name}.tts_pad_embed"][None]))


@torch.inference_mode()
def check_talker() -> Iterator[Check]:
    """Hidden states and logits of the prefill and of teacher-forced decode steps."""
    stored = golden("talker")
    for case in cases():
        name = case["name"]
        if f"{name}.logits" not in stored:
            continue
        run = GreedyTalker(toy(case["toy"]), build_prompt(case), 1.05)
        hidden, inputs = [run.hidden[-1:]], []
        for frame, codes in enumerate(stored[f"{name}.codes"].long()):
            inputs.append(run.next_input(codes, frame))
            hidden.append(run.feed(inputs[-1]))
        yield Check("talker hidden states, prefill", name, row_error(run.hidden, stored[f"{name}.prefill_hidden"]))
        yield Check("talker inputs, decode", name, row_error(torch.cat(inputs), stored[f"{name}.step_inputs"]))
        yield Check("talker hidden states, decode", name, row_error(torch.cat(hidden), stored[f"{name}.hidden"]))
        logits = run.talker.logits(torch.cat(hidden))
        yield Check("talker logits", name, row_error(logits, stored[f"{name}.logits"]))


@torch.inference_mode()
def check_predictor() -> Iterator[Check]:
    """Logits of all passes, teacher-forced and greedy, and greedy codes."""
    for name in ("toy-custom-voice", "toy-custom-voice-0b6"):
        stored, talker = golden(f"predictor-{name}"), toy(name).model.talker
        codes, seen = stored["codes"].long(), list[Tensor]()

        def forced(book: int, logits: Tensor, codes: Tensor = codes, seen: list[Tensor] = seen) -> Tensor:
            seen.append(logits)
            return codes[:, book]

        talker.code_predictor(stored["hidden"], talker.embed_codec(codes[:, 0]), forced)
        yield Check(
            "code predictor logits", f"{name}, teacher-forced", row_error(torch.stack(seen, 1), stored["logits"])
        )
        greedy = talker.code_predictor(
            stored["hidden"], talker.embed_codec(codes[:, 0]), lambda _, logits: logits.argmax(-1)
        )
        yield Check("code predictor codes", f"{name}, greedy", code_error(greedy, stored["greedy_codes"][:, 1:].long()))


@torch.inference_mode()
def check_greedy_utterances() -> Iterator[Check]:
    """Whole utterances. The official run stops one frame short of its limit, since the last id gets no other codes."""
    stored = golden("prompts")
    for case in cases():
        theirs = stored[f"{case['name']}.codes"].long()
        ours = GreedyTalker(toy(case["toy"]), build_prompt(case), 1.05).utterance(len(theirs) + 1)
        ended = int(stored[f"{case['name']}.sampled"][-1]) == toy(case["toy"]).config.control.eos
        yield Check("greedy codes", case["name"], code_error(ours if ended else ours[: len(theirs)], theirs))


@torch.inference_mode()
def check_embedded() -> Iterator[Check]:
    """The embedded checkpoints: every voice, way of cloning and language in both text layouts, all frames."""
    for name in EMBEDDED:
        checkpoint = toy(name)
        penalty = checkpoint.defaults.sampling.repetition_penalty
        for entry in embedded_utterances(name):
            ours = GreedyTalker(checkpoint, embedded_prompt(name, entry), penalty).utterance(len(entry["codes"]) + 1)
            voice = entry["voice"] if "voice" in entry else f"{entry['clip']}, {cloning(entry)}"
            case = f"{entry['text']} ({voice}, {entry['language']}, {text_layout(entry).value})"
            yield Check(f"greedy codes of {name}", case, code_error(ours, torch.tensor(entry["codes"])))


def cloning(entry: dict[str, Any]) -> str:
    return "speaker vector" if entry["ref_text"] is None else "in context"


SETTINGS = {
    "default": (DrawParams(True, 0.9, 50, 1.0), 1.05),
    "nucleus": (DrawParams(True, 0.9, 50, 0.8), 1.05),
    "nucleus_alone": (DrawParams(True, 0.7, 0, 0.8), 1.05),
    "narrow": (DrawParams(True, 0.6, 5, 1.0), 1.3),
}
"""The settings of scripts/oracle/goldens_sampling.py."""


def check_sampling() -> Iterator[Check]:
    """Probabilities after all processors, in the published order, on random logits, ties included."""
    stored, config = golden("sampling"), toy("toy-custom-voice").config
    ids = torch.arange(config.talker_vocab_size)
    for setting, (draw, penalty) in SETTINGS.items():
        for logits in ("smooth", "tied"):
            for history in ("none", "one", "repeats"):
                drawn = stored[f"history.{history}"].long()
                seen = torch.isin(ids, drawn)[None]
                x = penalise_repeats(stored[f"logits.{logits}"][None], seen, torch.tensor([penalty]))
                early = (ids == config.control.eos) & (len(drawn) < 2)
                x = forbid(x, early | ((ids >= config.first_control_id) & (ids != config.control.eos)))
                ours = distribution(x, RowDraws.of(settings_of([draw]), torch.tensor([0])))[0]
                theirs = torch.zeros_like(ours)
                key = f"{setting}.{logits}.{history}"
                theirs[stored[f"{key}.ids"].long()] = stored[f"{key}.probabilities"]
                if logits == "tied" and draw.top_p < 1:
                    # Which of several equal logits survive at the border is left to an unstable sort; how many is not.
                    ours, theirs = ours.sort().values, theirs.sort().values
                same_support = torch.equal(ours > 0, theirs > 0)
                yield Check("sampling probabilities", key, row_error(ours[None], theirs[None]) if same_support else 1.0)


@torch.inference_mode()
def check_codec() -> Iterator[Check]:
    """Decode whole and in the published chunks; encode; latents before quantisation."""
    stored, decoder = golden("codec-decode"), toy("toy-custom-voice").codec.decoder
    for key in (k for k in stored if "audio_every" in k):
        name, step = key.split(".audio_every_")
        codes = stored[f"{name}.codes"].long()[None]
        if name.startswith("whole"):
            audio = decoder.decode(codes)
        else:
            chunk, context = (int(word) for word in name.split(".")[0].split("_") if word.isdigit())
            audio = decoder.decode_chunked(codes, chunk, context)
        yield Check("codec decode", name, row_error(audio[:, :: int(step)], stored[key][None]))
    stored, encoder = golden("codec-encode"), toy("toy-base").codec.encoder
    for key in (k for k in stored if k.endswith("pcm16")):
        name, wav = key.removesuffix(".pcm16"), waveform(stored[key])
        yield Check(
            "codec encode, latents", f"{name} samples", row_error(encoder.features(wav), stored[f"{name}.latents"])
        )
        yield Check(
            "codec encode, codes", f"{name} samples", code_error(encoder.encode(wav), stored[f"{name}.codes"].long())
        )


@torch.inference_mode()
def check_speaker() -> Iterator[Check]:
    """Mel front end and speaker embedding."""
    stored, encoder = golden("speaker"), toy("toy-base").model.speaker_encoder
    assert encoder is not None
    for key in (k for k in stored if k.endswith("pcm16")):
        name, wav = key.removesuffix(".pcm16"), waveform(stored[key])
        yield Check("speaker mel", f"{name} samples", row_error(log_mel(wav), stored[f"{name}.mel"]))
        yield Check(
            "speaker embedding",
            f"{name} samples",
            row_error(encoder.embed(wav)[None], stored[f"{name}.embedding"][None]),
        )


GROUPS = (
    check_prompts,
    check_talker,
    check_predictor,
    check_greedy_utterances,
    check_embedded,
    check_sampling,
    check_codec,
    check_speaker,
)

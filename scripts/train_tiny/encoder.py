"""The trained codec encoder in batches: the modules of `ttsbench`, whose own `encode` hears one reference at a time.

Every layer is causal, so zeros after a shorter utterance change none of its frames.

Shapes: B utterances, F frames, D width, Q codebooks.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from scripts.train_tiny.config import HOP, codec_modules
from ttsbench.models.qwen3_tts.codec_config import ENCODER_DOWNSAMPLE
from ttsbench.models.qwen3_tts.codec_encoder import CodecEncoder
from ttsbench.models.qwen3_tts.codec_past import NoPast

BATCH_FRAMES = 4096
"""Frames heard at a time, padding included."""


def load_encoder(path: Path, device: torch.device) -> CodecEncoder:
    """The encoder with the weights of the file `path`, ready to encode."""
    encoder = codec_modules()[2]
    encoder.load_state_dict(load_file(path))
    encoder.to(device).eval().requires_grad_(False)
    encoder.finalize()
    return encoder


def no_past(frames: int, device: torch.device) -> NoPast:
    """What lies before whole utterances of `frames` frames."""
    return NoPast(frames * ENCODER_DOWNSAMPLE, None, device, torch.float32)


def batch_features(encoder: CodecEncoder, wav: Tensor, past: NoPast) -> Tensor:
    """What the quantiser codes, [B, F, D], of `wav` [B, F * HOP] float after `past`."""
    x = encoder.encoder(wav.unsqueeze(1)).transpose(1, 2)
    x = encoder.encoder_transformer(x, past)
    return encoder.downsample(x.transpose(1, 2)).transpose(1, 2)


@torch.no_grad()
def encode_utterances(encoder: CodecEncoder, audio: Tensor, frames: Tensor) -> Tensor:
    """Codes [sum F, Q] uint8 of utterances of `frames` [U] each, one after the other in `audio` [sum F, HOP] int16."""
    counts: list[int] = frames.tolist()
    pieces = torch.split(audio, counts)
    codes: list[Tensor] = [audio.new_empty(0)] * len(counts)
    for rows in _batches(counts):
        wav = torch.zeros(len(rows), counts[rows[-1]], HOP, device=audio.device)
        for place, row in enumerate(rows):
            wav[place, : counts[row]] = pieces[row].float() / 32768
        heard = batch_features(encoder, wav.flatten(1), no_past(wav.shape[1], audio.device))
        for place, row in enumerate(rows):
            codes[row] = encoder.quantizer(heard[place, : counts[row]]).to(torch.uint8)
    return torch.cat(codes)


def _batches(counts: list[int]) -> list[list[int]]:
    """Row numbers by rising frame count, in groups of at most BATCH_FRAMES frames with padding."""
    groups: list[list[int]] = []
    for row in sorted(range(len(counts)), key=counts.__getitem__):
        if groups and (len(groups[-1]) + 1) * counts[row] <= BATCH_FRAMES:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups

"""Goldens of the audio side: codec decoder, codec encoder, speaker encoder.

Long audio is stored thinned. The steps are coprime with the 1,920 samples of a frame, so every phase of the upsampling
is seen.
"""

from __future__ import annotations

from typing import Any

import torch
from official import mel_spectrogram
from torch import Tensor
from toy_configs import NUM_CODES
from toy_weights import probe_audio

WHOLE_FRAMES = {1: 1, 5: 1, 20: 1, 80: 7}
"""Frames of a decode in one piece, and the step between stored samples."""
ENCODE_SAMPLES = (700, 1919, 1920, 1921, 3840, 9600, 48000)
SPEAKER_SAMPLES = (4000, 13333, 24000)


@torch.no_grad()
def decode(wrapper: Any) -> dict[str, Tensor]:
    """Random codes to audio: whole, and in the package's chunks."""
    codec = wrapper.model.speech_tokenizer
    decoder, generator = codec.model.decoder, torch.Generator().manual_seed(5)
    tensors: dict[str, Tensor] = {}

    def store(name: str, codes: Tensor, audio: Tensor, step: int) -> None:
        tensors[f"{name}.codes"] = codes.to(torch.int32)
        tensors[f"{name}.audio_every_{step}"] = audio.flatten()[::step]

    for frames, step in WHOLE_FRAMES.items():
        codes = torch.randint(NUM_CODES, (frames, 16), generator=generator)
        store(f"whole.{frames}", codes, torch.from_numpy(codec.decode([{"audio_codes": codes}])[0][0]), step)
    dequantised = decoder.quantizer.decode(codes.T[None])
    tensors["whole.80.dequantised"] = dequantised[0].T
    hidden = decoder.pre_transformer(inputs_embeds=decoder.pre_conv(dequantised).transpose(1, 2)).last_hidden_state
    tensors["whole.80.transformer"] = hidden[0]
    codes = torch.randint(NUM_CODES, (25, 16), generator=generator)
    audio = decoder.chunked_decode(codes.T[None], chunk_size=10, left_context_size=3)
    store("chunks_of_10_context_3.25", codes, audio, 7)
    codes = torch.randint(NUM_CODES, (330, 16), generator=generator)
    store("chunks_of_300_context_25.330", codes, torch.from_numpy(codec.decode([{"audio_codes": codes}])[0][0]), 61)
    return tensors


@torch.no_grad()
def encode(wrapper: Any) -> dict[str, Tensor]:
    """Audio to codes [F, 16], with the latents [F, D] that the quantiser sees."""
    codec, tensors = wrapper.model.speech_tokenizer, {}
    latents: list[Tensor] = []
    hook = codec.model.encoder.downsample.register_forward_hook(lambda _m, _i, output: latents.append(output[0].T))
    for seed, samples in enumerate(ENCODE_SAMPLES):
        audio = probe_audio(samples, seed)
        tensors[f"{samples}.pcm16"] = (torch.from_numpy(audio) * 32768).to(torch.int16)
        tensors[f"{samples}.codes"] = codec.encode(audio, sr=24000).audio_codes[0].to(torch.int32)
        tensors[f"{samples}.latents"] = latents.pop()
    hook.remove()
    return tensors


@torch.no_grad()
def speaker(wrapper: Any) -> dict[str, Tensor]:
    """Audio to mel [T, 128] to speaker embedding [D]."""
    tensors: dict[str, Tensor] = {}
    for seed, samples in enumerate(SPEAKER_SAMPLES, start=20):
        audio = probe_audio(samples, seed)
        tensors[f"{samples}.pcm16"] = (torch.from_numpy(audio) * 32768).to(torch.int16)
        mel = mel_spectrogram(
            torch.from_numpy(audio)[None],
            n_fft=1024,
            num_mels=128,
            sampling_rate=24000,
            hop_size=256,
            win_size=1024,
            fmin=0,
            fmax=12000,
        )
        tensors[f"{samples}.mel"] = mel[0].T
        tensors[f"{samples}.embedding"] = wrapper.model.extract_speaker_embedding(audio, 24000)
    return tensors

"""Speak shards again through the codec's decoder, for whoever must know voices by the sound that it makes.

    python -m scripts.train_tiny.echo_shards --scratch SCRATCH --kinds reference --decoder CODEC/decoder.safetensors

Decodes the constructed codes beside each shard, `KIND-00012.codes.safetensors`, to `KIND-00012.echo.safetensors` with
`audio` int16 [sum F, HOP]. Files that exist are left alone.

Shapes: U utterances, F frames, Q codebooks, B utterances of a batch, n frames of its longest.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from scripts.train_tiny.config import CODEBOOK_SIZE, HOP, NUM_CODEBOOKS, ROW_WIDTH, codec_modules
from scripts.train_tiny.corpus import codes_path, echo_path, save_tensors, shards
from scripts.train_tiny.fast_decoder import row_sums, train_on_row_sums
from ttsbench.models.qwen3_tts.codec_past import NoPast

BATCH_FRAMES = 4096
"""Frames decoded at a time. The widest layers hold 16 channels of a frame's 1,920 samples: 0.25 GB a tensor."""


class Echo:
    """A trained decoder, ready to speak batches: in float32, on a GPU in float16.

    It trained in bfloat16, but an encoder hears that: on the codec of `tiny`, it moves the wave by -39 dB and the
    vectors of a trained speaker encoder to a cosine of 0.91 to 0.99. With float16 it is -58 dB and 0.999; the largest
    activation is 30.
    """

    def __init__(self, weights: Path, device: torch.device) -> None:
        self.decoder = codec_modules()[1]
        self.decoder.load_state_dict(load_file(weights))  # half precision is widened
        self.decoder.to(device).eval().requires_grad_(False)
        self.decoder.finalize()
        table = self.decoder.quantizer.derived("table")
        self._books = table.view(NUM_CODEBOOKS, CODEBOOK_SIZE, ROW_WIDTH)
        train_on_row_sums(self.decoder)

    @torch.no_grad()
    def speak(self, codes: Tensor) -> Tensor:
        """Waves int16 [B, n, HOP] of `codes` [B, n, Q]."""
        rows, frames = codes.shape[:2]
        keep = torch.full((rows,), NUM_CODEBOOKS, device=codes.device)
        past = NoPast(frames, self.decoder.config.window, codes.device, torch.float32)
        with torch.autocast(codes.device.type, torch.float16, enabled=codes.device.type == "cuda"):
            wave = self.decoder(row_sums(self._books, codes.long(), keep), past)
        return (wave * 32768).round().clamp(-32768, 32767).to(torch.int16).view(rows, frames, HOP)

    def utterances(self, codes: Tensor, frames: Tensor) -> Tensor:
        """Audio int16 [sum F, HOP] of utterances of `frames` [U] each, one after the other in `codes` [sum F, Q]."""
        first = frames.long().cumsum(0) - frames
        audio = torch.empty(len(codes), HOP, dtype=torch.int16, device=codes.device)
        for rows, longest in batches(frames):
            step = torch.arange(longest, device=codes.device)
            place = first[rows, None] + step
            # Every layer is causal: whatever is read on behind a shorter utterance changes none of its frames.
            wave = self.speak(codes[place.clamp(max=len(codes) - 1)])
            inside = step < frames[rows, None]
            audio[place[inside]] = wave[inside]
        return audio


def batches(frames: Tensor) -> Iterator[tuple[Tensor, int]]:
    """Utterances [B] of similar length, and the longest: of `frames` [U] at most BATCH_FRAMES with what is padded, or
    one utterance."""
    order = frames.argsort(descending=True)
    lengths: list[int] = frames[order].tolist()
    at = 0
    while at < len(lengths):
        rows = order[at : at + max(1, BATCH_FRAMES // lengths[at])]
        yield rows, lengths[at]
        at += len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="folder of the shards and their codes")
    parser.add_argument("--kinds", nargs="+", required=True)
    parser.add_argument("--decoder", type=Path, required=True, help="weights of a trained decoder, of the same fit")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.allow_tf32 = True
    echo = Echo(arguments.decoder, device)
    for kind in arguments.kinds:
        for path in shards(arguments.scratch, kind):
            target = echo_path(path)
            if not target.exists():
                codes = load_file(codes_path(path), device=str(device))["codes"]
                with safe_open(path, "pt", device=str(device)) as shard:  # its sound, most of the file, is not read
                    frames = shard.get_tensor("frames")
                save_tensors(target, {"audio": echo.utterances(codes, frames)})
                print(target, flush=True)


if __name__ == "__main__":
    main()

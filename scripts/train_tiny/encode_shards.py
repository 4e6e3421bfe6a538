"""Write the codes of shards beside them.

    python -m scripts.train_tiny.encode_shards --scratch SCRATCH --kinds named many --codes CODES.safetensors
    python -m scripts.train_tiny.encode_shards --scratch SCRATCH --kinds many reference --encoder ENCODER.safetensors

With `--codes`, those of the fit by construction: `KIND-00012.codes.safetensors`. With `--encoder`, what the trained
encoder hears, as a user's reference will be heard: `KIND-00012.heard.safetensors`. Files that exist are left alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from scripts.train_tiny.codes import Fit, encode
from scripts.train_tiny.corpus import Shard, codes_path, heard_path, load_shard, save_tensors, shards
from scripts.train_tiny.encoder import encode_utterances, load_encoder
from scripts.train_tiny.features import shard_features
from ttsbench.models.qwen3_tts.codec_encoder import CodecEncoder


def constructed(fit: Fit, shard: Shard) -> Tensor:
    """Codes [sum F, Q] of the fit."""
    return encode(fit, shard_features(shard))


def heard(encoder: CodecEncoder, shard: Shard) -> Tensor:
    """Codes [sum F, Q] of the encoder."""
    return encode_utterances(encoder, shard.audio, shard.frames)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="folder of the shards")
    parser.add_argument("--kinds", nargs="+", required=True)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--codes", type=Path, help="the fit")
    how.add_argument("--encoder", type=Path, help="weights of the trained encoder, a safetensors file")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    codes_of: Callable[[Shard], Tensor]
    beside = codes_path if arguments.encoder is None else heard_path
    if arguments.encoder is None:
        codes_of = partial(constructed, Fit.load(arguments.codes, device))
    else:
        codes_of = partial(heard, load_encoder(arguments.encoder, device))
    for kind in arguments.kinds:
        for path in shards(arguments.scratch, kind):
            target = beside(path)
            if not target.exists():
                save_tensors(target, {"codes": codes_of(load_shard(path, device)).cpu()})
                print(target, flush=True)


if __name__ == "__main__":
    main()

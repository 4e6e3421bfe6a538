"""One codec frame of many streams on a GPU: time, alone in a captured graph, and its share of the matrix rate.

    python -m scripts.bench_codec --rows 1 8 32 64 128 [--timeline 1 128]

Random weights at the released shapes; every stream stands past its window of 72 frames. One JSON line per number of
rows: the median of replays in microseconds, and TFLOP/s of the frame's 4.961 GFLOP a row. `--timeline` lists the
kernels of an eager frame in their order, where neighbours do not overlap.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import torch

from scripts.bench_ceilings import timed
from scripts.random_model import SHAPES, random_codec
from ttsbench.models.qwen3_tts.codec_frame import FrameCodec
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec

FLOPS = 4.961e9
"""Of a frame of one stream."""


def sequence(work: Callable[[], object]) -> list[tuple[str, float]]:
    """(name, microseconds) of the kernels of one call."""
    work()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work()
        torch.cuda.synchronize()
    found = [event for event in profile.events() if event.device_type.name == "CUDA"]
    found.sort(key=lambda event: event.time_range.start)
    return [(event.name[:40], round(event.device_time, 1)) for event in found]


def captured(work: Callable[[], torch.Tensor]) -> tuple[float, bool]:
    """Microseconds of a replay, and whether its PCM is finite."""
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):  # where it is captured, as kernels keep counters for each stream
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        pcm = work()
    return timed(graph.replay), bool(pcm.isfinite().all())


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32, 64, 128])
    parser.add_argument("--timeline", type=int, nargs="*", default=[], help="rows whose kernels are listed")
    arguments = parser.parse_args()
    decoder = random_codec(SHAPES["1.7b"].codec, torch.device("cuda"), torch.bfloat16)
    stream = StreamingCodec(decoder, max(arguments.rows) + 1)
    codec = FrameCodec(stream)
    for rows in sorted(arguments.rows):
        stream.position.fill_(100)
        codes = torch.randint(2048, (rows, decoder.config.num_codebooks), device="cuda")
        slots = torch.randperm(max(arguments.rows), device="cuda")[:rows].contiguous()
        if rows in arguments.timeline:
            kernels = sequence(lambda codes=codes, slots=slots: codec(codes, slots))  # type: ignore[misc]
            print(json.dumps({"rows": rows, "kernels": kernels}), flush=True)
        us, finite = captured(lambda codes=codes, slots=slots: codec(codes, slots))  # type: ignore[misc]
        line = {"rows": rows, "us": round(us, 1), "tflops": round(rows * FLOPS / us / 1e6, 1), "finite": finite}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

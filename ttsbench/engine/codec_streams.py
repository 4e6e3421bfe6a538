"""Which multiprocessors the codec runs on: some of its own, so that the decode chain always finds others free.

The chain of talker and code predictor is many short launches that each wait for the one before; a codec program keeps
its multiprocessor for long, and the chain would wait for it at every turn. On a stream of a *green context* (CUDA 12.4)
kernels take a fixed number of multiprocessors at most. How many is a matter of measurement (docs/measurements.md): as
few as let the codec of a step end within the step.

A frame of few rows and one of many use different streams, all of one codec state: whoever changes streams waits for
what the last one has in line.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch

from ttsbench.engine.graphs import Graphs

log = logging.getLogger(__name__)

SHARES = ((32, 16), (64, 64))
"""(rows, multiprocessors): up to so many rows of a step, the codec has so many multiprocessors; beyond, all of them. The
passes of the decode chain (`kernels/decoder_pass`), which stay on their multiprocessors throughout, leave it the first
share."""


@dataclass
class CodecStream:
    """A stream for frames of up to `max_rows` rows, its captured graphs, and what must live as long as the stream."""

    max_rows: int
    stream: torch.cuda.Stream
    graphs: Graphs
    multiprocessors: int | None
    """None: all."""
    owner: object = None


def codec_streams(device: torch.device, max_rows: int) -> list[CodecStream]:
    """One for each share that frames of up to `max_rows` rows can need, the fewest rows first."""
    found = []
    total = torch.cuda.get_device_properties(device).multi_processor_count
    covered = 0
    for rows, multiprocessors in SHARES:
        if covered >= max_rows or multiprocessors >= total:
            break
        owner = green_context(device, multiprocessors)
        if owner is None:
            break
        stream = owner.Stream()  # type: ignore[attr-defined]
        found.append(CodecStream(min(rows, max_rows), stream, Graphs(stream), multiprocessors, owner))
        covered = rows
    if covered < max_rows:
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        found.append(CodecStream(max_rows, stream, Graphs(stream), None))
    return found


def left_to_codec(device: torch.device) -> int:
    """Multiprocessors that passes of the decode chain leave free."""
    if device.type != "cuda" or not SHARES:
        return 0
    return SHARES[0][1] if green_context(device, SHARES[0][1]) is not None else 0


def green_context(device: torch.device, multiprocessors: int) -> object | None:
    """A context with so many multiprocessors, or None, which is logged, where torch or the driver has none."""
    try:
        from torch.cuda.green_contexts import GreenContext

        number = torch.cuda.current_device() if device.index is None else device.index
        context = GreenContext.create(num_sms=multiprocessors, device_id=number)
    except (ImportError, RuntimeError) as error:
        log.warning("the codec shares all multiprocessors with the decode chain: no green context (%s)", error)
        return None
    return context if hasattr(context, "Stream") else None

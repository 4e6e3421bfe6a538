"""Codecs hear their reference before the first frame: in groups of one length, and as if each had been alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.toys import HOP, TOY, Heard, ToyEngine, requests, toy_prompt
from tests.models.qwen3_tts.exactness import toy
from ttsbench.core import FinishReason, SpeechRequest
from ttsbench.engine import priming
from ttsbench.engine.graphs import Graphs, Key
from ttsbench.engine.priming import GROUP, Primer, Started, groups
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.models.qwen3_tts.prompt import Prompt

CONTEXTS = {"r0": 0, "r1": 25, "r2": 72, "r3": 25, "r4": 130, "r5": 72, "r6": 0, "r7": 25}
"""None at all, less than a window, a window, more than a window and the ring; several of the same, not in a row."""
ASKED = requests(8)


def context(name: str) -> Tensor:
    """Frames [n, Q] of request `name`."""
    noise = torch.Generator().manual_seed(int(name[1:]))
    return torch.randint(0, 64, (CONTEXTS[name], 16), generator=noise)


def cloned_prompt(request: SpeechRequest, device: str = "cpu") -> Prompt:
    codes = context(request.id).to(device)
    return replace(toy_prompt(request, device), context_codes=codes if len(codes) else None)


def engine(device: str = "cpu", **options: Any) -> ToyEngine:
    def prompt(request: SpeechRequest) -> Prompt:
        return cloned_prompt(request, device)

    return ToyEngine(prompt, device=device, **{"max_num_seqs": 8, **options})


def whole(name: str, heard: Heard) -> np.ndarray:
    """What the codec makes of context and generated codes in one piece, the context cut off again."""
    codes = torch.cat((context(name), torch.from_numpy(np.stack(heard.codes)).long()))
    with torch.inference_mode():
        pcm = toy(TOY).codec.decoder.decode(codes[None])[0]
    return pcm[CONTEXTS[name] * HOP :].numpy()


def alone(name: str, heard: Heard) -> bytes:
    """PCM of a stream of its own that decodes every context frame, then the generated ones."""
    codec, slot = StreamingCodec(toy(TOY).codec.decoder, 1), torch.tensor([0])
    with torch.inference_mode():
        codec.step(context(name)[None], slot)
        frames = [codec.step(torch.from_numpy(codes).long()[None, None], slot)[0] for codes in heard.codes]
    return torch.cat(frames).numpy().tobytes()


def assert_primed(heard: dict[str, Heard]) -> None:
    for one in ASKED:
        assert np.abs(heard[one.id].pcm - whole(one.id, heard[one.id])).max() < 1e-4, one.id


def test_every_voice_goes_on_from_its_own_context() -> None:
    """Two rounds through the same slots, in another order. Goes red when a group's rows are mixed up, a context is
    cut, a former one stays, or a request without context gets one.
    """
    one = engine()
    assert_primed(one.speak(ASKED))
    one.heard = {}
    assert_primed(one.speak(ASKED[::-1]))
    one.assert_empty()
    assert not one.runner.primer.waiting


def test_requests_that_start_together_are_primed_together() -> None:
    """By real length: three of 25, two of 72 and one of 130. Goes red when each is primed by itself, and when those
    without a context count.
    """
    one = engine()
    one.speak(ASKED)
    assert one.stats()["priming"] == {"requests": 6, "groups": 3}


def test_groups_have_one_length_and_hold_everybody_once() -> None:
    """Goes red when a group outgrows its bound, or lengths are rounded."""
    started = [Started(slot, torch.zeros(25 + slot % 3 // 2, 16)) for slot in range(30)]
    made = list(groups(started))
    assert [len(group) for group in made] == [GROUP, GROUP, 4, GROUP, 2]
    assert all(len({len(one.codes) for one in group}) == 1 for group in made)
    assert sorted(one.slot for group in made for one in group) == list(range(30))


@pytest.mark.parametrize("slots", [1, 8])
def test_batch_invariant_primes_as_if_every_frame_had_been_decoded_alone(slots: int) -> None:
    """Byte for byte, whoever else starts. Goes red when groups or shortened passes are used at this level."""
    heard = engine(max_num_seqs=slots, batch_invariant=True).speak(ASKED)
    for one in ASKED:
        assert heard[one.id].pcm.tobytes() == alone(one.id, heard[one.id]), one.id


def test_a_clip_of_impossible_codes_fails_its_request_alone() -> None:
    """Goes red when codes are first looked at in the group's pass, where they would take their neighbours along."""

    def prompt(request: SpeechRequest) -> Prompt:
        made = cloned_prompt(request)
        assert made.context_codes is None or len(made.context_codes)
        return replace(made, context_codes=context("r1") + 64) if request.id == "r3" else made

    one = ToyEngine(prompt, max_num_seqs=8)
    heard = one.speak(ASKED)
    assert heard["r3"].reason is FinishReason.FAILED
    assert all(heard[other.id].reason is not FinishReason.FAILED for other in ASKED if other.id != "r3")
    one.assert_empty()
    assert not one.runner.primer.waiting


class Replayed(Graphs):
    """Stands in for captured graphs where there is no GPU: a replay runs the part anew."""

    def __init__(self, part: Callable[[int], None]) -> None:
        self.replays: Counter[Key] = Counter()
        self._part = part

    def replay(self, key: Key) -> None:
        self._part(key[1])
        self.replays[key] += 1


@pytest.mark.parametrize(("slots", "expected"), [(8, {4: 1}), (3, {3: 1})])
@torch.inference_mode()
def test_groups_of_the_captured_length_are_replayed_and_others_are_not(slots: int, expected: dict[int, int]) -> None:
    """Three of 25 in the smallest bucket that holds them, padded in the slot that is nobody's; 72 eagerly. Goes red
    when a padding row stands in a real slot, a bucket is missing, or the graph reads what was current at its capture.
    """
    codec, eager = (StreamingCodec(toy(TOY).codec.decoder, slots + 1) for _ in range(2))
    primer, plain = Primer(codec, alone=False, captured_frames=25), Primer(eager, alone=False, captured_frames=None)
    graphs = Replayed(primer.part)
    for names in (("r2",), ("r1", "r3", "r7")):
        for one in (primer, plain):
            for slot, name in enumerate(names):
                one.add(slot, context(name))
        codec.reset(range(slots))
        eager.reset(range(slots))
        primer.run(graphs)
        plain.run(None)
        for got, want in zip(codec.state, eager.state, strict=True):
            torch.testing.assert_close(got[:slots], want[:slots], rtol=0, atol=1e-4)
    assert graphs.replays == {(priming.PART, rows): count for rows, count in expected.items()}


@pytest.mark.gpu
@pytest.mark.usefixtures("full_float32")
@pytest.mark.parametrize("eager", [True, False], ids=["eager", "graphs"])
def test_every_voice_goes_on_from_its_own_context_on_a_gpu(eager: bool) -> None:
    """Float32 without TF32, against the CPU's whole decode. Three of 25 share a captured group; others run eagerly.
    Red as above, and when the codec's stream primes before the slot is reset, or after its first frame.
    """
    one = engine("cuda", max_num_batched_tokens=48, enforce_eager=eager, context_frames=25)
    for asked in (ASKED, ASKED[::-1]):
        assert_primed(one.speak(asked))
        one.heard = {}
    replays = one.stats()["graphs"]
    assert eager or replays["prime:4"] == 2
    assert one.stats()["compilations"] == 0


@pytest.mark.gpu
@pytest.mark.usefixtures("full_float32")
def test_batch_invariant_is_byte_equal_for_cloned_voices_on_a_gpu() -> None:
    """One slot or eight, this order or another. Red when a codec is primed in a group at this level."""
    invariant = {"batch_invariant": True, "max_num_batched_tokens": 96, "context_frames": 25}
    first = engine("cuda", **invariant | {"max_num_seqs": 1}).speak(ASKED)
    other = engine("cuda", **invariant).speak(ASKED[::-1])
    for one in ASKED:
        assert first[one.id].pcm.tobytes() == other[one.id].pcm.tobytes()

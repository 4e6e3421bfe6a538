"""Each codebook draws with its own number and its own settings."""

from __future__ import annotations

from dataclasses import replace

import torch

from tests.engine.toys import TOY, request, toy_prompt
from tests.models.qwen3_tts.exactness import toy
from ttsbench.core import DrawParams, SamplingParams
from ttsbench.engine.rng import frame_uniforms
from ttsbench.engine.sampler import FrameSampler
from ttsbench.engine.slot_state import SlotState

CONFIG = toy(TOY).config
FLAT = DrawParams(do_sample=True, temperature=1.0, top_k=0, top_p=1.0)
SEEDS = (3, 2**40 + 5)


def sampler(params: SamplingParams, frame: int = 4) -> FrameSampler:
    state = SlotState(CONFIG, 3, torch.device("cpu"), torch.float32)
    slots = torch.tensor([2, 0])
    for slot, seed in zip(slots.tolist(), SEEDS, strict=True):
        one = replace(request("a"), seed=seed, sampling=params)
        state.start(slot, one, toy_prompt(one))
    state.frame[slots] = frame
    return FrameSampler(CONFIG, state, slots, [params, params])


def test_every_codebook_has_its_own_number() -> None:
    """With flat logits a draw is floor(u x V), so the code shows which uniform was used. Red if all codebooks share
    one.
    """
    uniforms = frame_uniforms(torch.tensor(SEEDS), torch.tensor([4, 4]), CONFIG.num_codebooks)
    made = sampler(SamplingParams(FLAT, FLAT))
    for book in range(1, CONFIG.num_codebooks):
        drawn = made.rest(book, torch.zeros(2, CONFIG.codebook_size))
        assert drawn.tolist() == (uniforms[:, book] * CONFIG.codebook_size).long().tolist()


def test_talker_and_code_predictor_draw_by_their_own_settings() -> None:
    """One greedy, the other not, both ways round. Red if either takes the other's settings."""
    greedy = replace(FLAT, do_sample=False)
    logits = torch.zeros(2, CONFIG.codebook_size)
    logits[:, 9] = 1e-3
    wide = torch.zeros(2, CONFIG.talker_vocab_size)
    wide[:, 11] = 1e-3
    quiet_talker, quiet_predictor = sampler(SamplingParams(greedy, FLAT)), sampler(SamplingParams(FLAT, greedy))
    assert quiet_talker.first(wide).tolist() == [11, 11]
    assert quiet_talker.rest(1, logits).tolist() != [9, 9]
    assert quiet_predictor.first(wide).tolist() != [11, 11]
    assert quiet_predictor.rest(1, logits).tolist() == [9, 9]


def test_the_finite_flag_is_per_row() -> None:
    made = sampler(SamplingParams(FLAT, FLAT))
    logits = torch.zeros(2, CONFIG.codebook_size)
    logits[1, 3] = float("inf")
    made.rest(1, logits)
    made.rest(2, torch.zeros(2, CONFIG.codebook_size))
    assert made.finite.tolist() == [True, False]

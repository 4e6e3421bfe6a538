"""One frame of a step: whose numbers and settings a draw uses, what the next input is, and what the report says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.engine.toys import TOY, ToyEngine, change_logits, request, requests, toy_prompt
from tests.models.qwen3_tts.exactness import toy
from ttsbench.core import DrawParams, SamplingParams
from ttsbench.engine import frame
from ttsbench.engine.slot_state import slot_layout
from ttsbench.kernels.draw import FirstCodeRules, Rows
from ttsbench.kernels.draw.philox import frame_uniforms
from ttsbench.kernels.next_input import ENDED, LAST, SOUND

CONFIG = toy(TOY).config
Q = CONFIG.num_codebooks
FLAT = DrawParams(do_sample=True, temperature=1.0, top_k=0, top_p=1.0)
SEEDS = (3, 2**40 + 5)
SLOTS = (2, 0)
FRAME, LIMIT = 4, 9
PLACES = (13, 40)
"""Where the next inputs go."""


class Step:
    """Two rows of an engine at frame `FRAME`; the second has run out of text."""

    def __init__(self, params: SamplingParams, limits: tuple[int, int] = (LIMIT, LIMIT)) -> None:
        self.runner = ToyEngine().runner
        control = self.runner.control.host
        for slot, seed, limit in zip(SLOTS, SEEDS, limits, strict=True):
            one = replace(request("a"), seed=seed, sampling=params)
            self.runner.state.start(slot, [slot], one, limit, toy_prompt(one).pad + slot)
        control["frame_slots"][:2] = SLOTS
        control["frames"][:2] = FRAME
        control["next_inputs"][:2] = PLACES
        control["has_text"][:2] = (True, False)
        self.inputs = self.runner.cache.inputs
        self.inputs.normal_()

    @torch.inference_mode()
    def run(self) -> Tensor:
        """The report [2, Q + 2]."""
        frame = self.runner.program.frame
        frame.run(torch.randn(2, CONFIG.talker.hidden_size))
        return frame.report[:2].clone()


def flat(monkeypatch: pytest.MonkeyPatch, bump: int | None = None) -> None:
    """All logits equal but one, slightly larger, which a greedy draw takes and another one hardly ever."""

    def logits_of(logits: Tensor) -> Tensor:
        changed = torch.zeros_like(logits)
        if bump is not None:
            changed[:, bump] = 1e-3
        return changed

    change_logits(monkeypatch, lambda logits, *_: logits_of(logits), lambda _, logits, rows: logits_of(logits))


def test_every_codebook_has_its_own_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """With flat logits a draw is floor(u x V), so the code shows which uniform was used. Red if all codebooks share
    one, or if a row takes its neighbour's.
    """
    flat(monkeypatch)
    uniforms = frame_uniforms(torch.tensor(SEEDS), torch.tensor([FRAME, FRAME]), Q)
    drawn = Step(SamplingParams(FLAT, FLAT, min_frames=FRAME + 1)).run()
    assert drawn[:, 0].tolist() == (uniforms[:, 0] * CONFIG.first_control_id).long().tolist()
    assert torch.equal(drawn[:, 1:Q], (uniforms[:, 1:] * CONFIG.codebook_size).long())


def test_talker_and_code_predictor_draw_by_their_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """One greedy, the other not, both ways round. Red if either takes the other's settings."""
    flat(monkeypatch, bump=9)
    greedy = replace(FLAT, do_sample=False)
    quiet_talker = Step(SamplingParams(greedy, FLAT)).run()
    quiet_predictor = Step(SamplingParams(FLAT, greedy)).run()
    assert (quiet_talker[:, 0] == 9).all()
    assert not (quiet_talker[:, 1:Q] == 9).all()
    assert not (quiet_predictor[:, 0] == 9).all()
    assert (quiet_predictor[:, 1:Q] == 9).all()


def test_settings_are_those_of_the_slots_present_owner() -> None:
    """Seed, draws, penalty and codes seen of a former owner are gone. Red if `SlotState.start` forgets one of them."""
    strange = DrawParams(do_sample=False, temperature=0.5, top_k=3, top_p=0.7)
    loud = SamplingParams(strange, strange, repetition_penalty=100.0, min_frames=1)
    fresh, used = Step(SamplingParams()), Step(loud, limits=(3, 5))
    used.run()
    assert all(used.runner.state.seen[slot].any() for slot in SLOTS)
    for slot, seed in zip(SLOTS, SEEDS, strict=True):
        one = replace(request("b"), seed=seed, sampling=SamplingParams())
        used.runner.state.start(slot, [slot], one, LIMIT, toy_prompt(one).pad)
        assert not used.runner.state.seen[slot].any()
    settings = [name for name in slot_layout(1, 1) if name != "tables"]
    assert len(settings) == 12
    for name in settings:
        ours, theirs = (step.runner.control.host[name][list(SLOTS)] for step in (used, fresh))
        assert ours.tolist() == theirs.tolist(), name


@pytest.mark.parametrize("book", [0, 1, 8, Q - 1])
def test_the_sound_flag_is_per_row_and_of_every_codebook(book: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Infinity in one logit of one row; the next frame of the row is sound again. Red if a codebook is not asked, if
    the flag is one for all rows, or if it stays.
    """
    broken = [True]

    def changed(number: int, logits: Tensor) -> Tensor:
        if broken[0] and number == book:
            logits = logits.clone()
            logits[1, 3] = float("inf")
        return logits

    def first(logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
        return changed(0, logits)

    change_logits(monkeypatch, first, lambda number, logits, _: changed(number, logits))
    step = Step(SamplingParams(FLAT, FLAT))
    assert [bool(flags & SOUND) for flags in step.run()[:, Q]] == [True, False]
    broken[0] = False
    assert [bool(flags & SOUND) for flags in step.run()[:, Q]] == [True, True]


def test_the_next_input_is_the_frames_embedding_and_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 0 has a text row waiting, row 1 takes the pad of its own slot; nothing else is written. Red if text and pad
    change places, or if codebook 15 is left out of the sum.
    """
    flat(monkeypatch)
    step = Step(SamplingParams(FLAT, FLAT))
    before = step.inputs.clone()
    report = step.run()
    with torch.inference_mode():
        frames = toy(TOY).model.talker.embed_frames(report[:, :Q])
    expected = before.clone()
    expected[PLACES[0]] = frames[0] + before[PLACES[0]]
    expected[PLACES[1]] = frames[1] + step.runner.state.pads[SLOTS[1]]
    assert torch.allclose(step.inputs, expected, atol=1e-5)
    changed = (step.inputs != before).any(dim=1).nonzero().squeeze(1)
    assert changed.tolist() == sorted(PLACES)


def test_the_report_says_who_ended_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 0 draws end of speech, row 1 has its last frame. Red if the limit is one frame off, or flags change rows."""

    def first(logits: Tensor, rows: Rows, rules: FirstCodeRules) -> Tensor:
        changed = logits.clone()
        changed[0, rules.eos], changed[1, rules.eos] = 1e9, -1e9
        return changed

    change_logits(monkeypatch, first)
    for limit, last in ((FRAME, LAST), (FRAME + 1, LAST), (FRAME + 2, 0)):
        report = Step(SamplingParams(FLAT, FLAT), limits=(LIMIT, limit)).run()
        assert report[:, Q].tolist() == [SOUND | ENDED, SOUND | last]
        assert report[:, Q + 1].tolist() == list(SLOTS)


def test_the_norm_that_a_draw_writes_is_the_rows_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where the first product of a position takes what the draw before it has written beside the row. Red
    when it is of another codebook's table (try `_row_norm(1, normed)`), or of a row that another draw fetched.
    """
    asked = requests(3, sampling=SamplingParams(min_frames=99))
    plain = ToyEngine(max_num_seqs=3).speak(asked)
    monkeypatch.setattr(frame, "is_fused", lambda rows, weight: True)
    drawn = ToyEngine(max_num_seqs=3).speak(asked)
    for name, one in plain.items():
        assert np.array_equal(one.codes, drawn[name].codes)
        assert np.abs(one.pcm - drawn[name].pcm).max() < 1e-4

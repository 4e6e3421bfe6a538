"""Training sequences are the prompts that inference builds, position by position.

A layout that is off by one trains well and speaks badly, so the arithmetic of `layouts.py` is held against
`PromptBuilder` itself: same rows, for every layout, language and kind of context. To break these: shift a frame by one,
forget the pad of the non-streaming layout, or swap reference and target.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from scripts.train_tiny.layouts import EOS_TARGET, NONE, SPEAKER, Choice, Ids, Rows, Speech, arrange, length
from scripts.train_tiny.pace import NO_TOKEN
from scripts.train_tiny.talker_model import TalkerModel
from ttsbench.core import TextLayout
from ttsbench.models.qwen3_tts.checkpoint import Checkpoint
from ttsbench.models.qwen3_tts.prompt import Conditioning

TOY = Path(__file__).parents[2] / "golden" / "toy-base"
REFERENCE, TARGET = "Reference words.", "And a target, said twice."
REFERENCE_FRAMES, FRAMES = 17, 11
SAID = {3: 0, 4: 1, 7: 2, 8: 2, 9: 4, REFERENCE_FRAMES + 5: 0, REFERENCE_FRAMES + 6: 1, REFERENCE_FRAMES + 8: 3}
"""Frame -> the token of its utterance that it speaks."""
CASES = list(itertools.product((False, True), (False, True), (False, True)))
"""(English row, non-streaming, reference in the context)"""


@pytest.fixture(scope="module")
def toy() -> Checkpoint:
    return Checkpoint.load(TOY, torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def ids(toy: Checkpoint) -> Ids:
    text, control = toy.config.text, toy.config.control
    role = (text.im_start, toy.tokenizer.assistant, toy.tokenizer.newline)
    return Ids(
        role,
        text.tts_pad,
        text.tts_bos,
        text.tts_eos,
        pad=control.pad,
        bos=control.bos,
        eos=control.eos,
        think=control.think,
        nothink=control.nothink,
        think_bos=control.think_bos,
        think_eos=control.think_eos,
        english=toy.config.languages["english"],
    )


@pytest.fixture(scope="module")
def speech(toy: Checkpoint) -> Speech:
    """Utterance 0 is the reference, 1 the target."""
    tokens = [toy.tokenizer.encode(text) for text in (REFERENCE, TARGET)]
    first, second = (len(x) for x in tokens)
    said = torch.full((REFERENCE_FRAMES + FRAMES,), NO_TOKEN, dtype=torch.uint8)
    said[list(SAID)] = torch.tensor(list(SAID.values()), dtype=torch.uint8)
    return Speech(
        tokens=torch.tensor([*tokens[0], *tokens[1]]),
        tokens_at=torch.tensor([0, first, first + second]),
        frames_at=torch.tensor([0, REFERENCE_FRAMES, REFERENCE_FRAMES + FRAMES]),
        said=said,
    )


def choice(speech: Speech, english: bool, non_streaming: bool, in_context: bool) -> Choice:
    return Choice(
        target=torch.tensor([1]),
        reference=torch.tensor([0 if in_context else NONE]),
        skipped=torch.tensor([0]),
        frames=torch.tensor([REFERENCE_FRAMES if in_context else 0]),
        tokens=speech.token_counts[:1] * in_context,
        speaker=torch.tensor([SPEAKER]),
        english=torch.tensor([english]),
        non_streaming=torch.tensor([non_streaming]),
    )


def arranged(speech: Speech, made: Choice, ids: Ids) -> Rows:
    return arrange(speech, made, int(length(speech, made)[0]), ids)


@pytest.mark.parametrize(("english", "non_streaming", "in_context"), CASES)
def test_input_rows_are_those_of_inference(
    toy: Checkpoint, ids: Ids, speech: Speech, english: bool, non_streaming: bool, in_context: bool
) -> None:
    """The prompt, and after it every frame with its text row, as the engine would feed them."""
    torch.manual_seed(0)
    books, size = toy.config.num_codebooks, toy.config.codebook_size
    codes = torch.randint(size, (REFERENCE_FRAMES + FRAMES, books))
    vector = torch.randn(1, toy.config.talker.hidden_size)
    made = choice(speech, english, non_streaming, in_context)
    rows = arranged(speech, made, ids)
    model = TalkerModel(toy.config, toy.model.talker, ids, 0.0, False)
    fed = codes[rows.frame.clamp(min=0)]
    ours = model.embed(rows, fed, rows.frame >= 0, vector, torch.float32)

    voice = Conditioning(vector[0])
    if in_context:
        voice = Conditioning(vector[0], reference_codes=codes[:REFERENCE_FRAMES], reference_text=REFERENCE)
    layout = TextLayout.NON_STREAMING if non_streaming else TextLayout.STREAMING
    prompt = toy.prompts.build(TARGET, "english" if english else "auto", layout, voice)
    frames = toy.model.talker.embed_frames(codes[REFERENCE_FRAMES:])
    text = [prompt.trailing[j] if j < len(prompt.trailing) else prompt.pad for j in range(FRAMES)]
    theirs = torch.cat((prompt.rows, frames + torch.stack(text)))
    # sums of at most 18 float32 rows of order one, added in another order
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("english", "non_streaming", "in_context"), CASES)
def test_every_frame_and_the_end_are_predicted_once(
    ids: Ids, speech: Speech, english: bool, non_streaming: bool, in_context: bool
) -> None:
    rows = arranged(speech, choice(speech, english, non_streaming, in_context), ids)
    goals = rows.goal[0][rows.goal[0] != NONE].tolist()
    first = 0 if in_context else REFERENCE_FRAMES
    assert goals == [*range(first, REFERENCE_FRAMES + FRAMES), EOS_TARGET]
    assert rows.goal[0, -1] == EOS_TARGET
    fed = rows.goal[0, :-1] >= 0
    assert torch.equal(rows.frame[0, 1:][fed], rows.goal[0, :-1][fed]), "a frame is fed right after its prediction"
    assert torch.equal(rows.history[0] > 0, rows.frame[0] >= REFERENCE_FRAMES)


@pytest.mark.parametrize(("english", "non_streaming", "in_context"), CASES)
def test_focus_names_the_token_that_the_frame_speaks(
    toy: Checkpoint, ids: Ids, speech: Speech, english: bool, non_streaming: bool, in_context: bool
) -> None:
    """Of the reference as of the target, wherever its row stands. Red when a reference's tokens are counted into its
    own place, or are left out of the target's."""
    rows = arranged(speech, choice(speech, english, non_streaming, in_context), ids)
    spoken = {}
    for goal, focus in zip(rows.goal[0].tolist(), rows.focus[0].tolist(), strict=True):
        if focus != NONE:
            spoken[goal] = int(rows.text[0, focus])
    tokens = {False: toy.tokenizer.encode(REFERENCE), True: toy.tokenizer.encode(TARGET)}
    expected = {frame: tokens[frame >= REFERENCE_FRAMES][token] for frame, token in SAID.items()}
    assert spoken == {frame: token for frame, token in expected.items() if in_context or frame >= REFERENCE_FRAMES}


def test_tokens_after_a_reference_breaks_off_are_nobodys(ids: Ids, speech: Speech) -> None:
    """Its frames may go on for a while; the row of such a token is the target's. Red when all that is said counts."""
    broken = replace(choice(speech, True, False, True), tokens=torch.tensor([2]))
    rows = arranged(speech, broken, ids)
    seen = rows.goal[0][rows.focus[0] != NONE].tolist()
    assert seen == [frame for frame, token in SAID.items() if token < 2 or frame >= REFERENCE_FRAMES]


def test_batches_mix_layouts(ids: Ids, speech: Speech) -> None:
    """Each row of a batch is what it is alone. Red when a count of one sequence leaks into another."""
    made = [choice(speech, *case) for case in CASES]
    joined = Choice(*(torch.cat([getattr(one, name) for one in made]) for name in Choice.__dataclass_fields__))
    lengths = length(speech, joined)
    together = arrange(speech, joined, int(lengths.max()), ids)
    for row, (one, steps) in enumerate(zip(made, lengths.tolist(), strict=True)):
        alone = arrange(speech, one, steps, ids)
        for name in Rows.__dataclass_fields__:
            part: Tensor = getattr(together, name)[row, :steps]
            assert torch.equal(part, getattr(alone, name)[0]), (name, row)


@pytest.mark.parametrize("non_streaming", [False, True])
def test_part_of_a_reference_is_arranged_like_a_reference_of_that_length(
    ids: Ids, speech: Speech, non_streaming: bool
) -> None:
    """Four frames left out at the head, three at the end, two tokens kept; and its codes are those that were heard.

    Red when `skipped` or `heard` is not added to the rows, or the whole reference is counted anywhere.
    """
    skipped, kept, tokens, heard = 4, REFERENCE_FRAMES - 7, 2, 100
    whole = choice(speech, True, non_streaming, True)
    part = replace(whole, skipped=torch.tensor([skipped]), frames=torch.tensor([kept]), tokens=torch.tensor([tokens]))
    rows = arranged(replace(speech, heard=heard), part, ids)
    first = int(speech.tokens_at[1])
    short = Speech(
        tokens=torch.cat((speech.tokens[:tokens], speech.tokens[first:])),
        tokens_at=torch.cat((torch.tensor([0]), speech.tokens_at[1:] - first + tokens)),
        frames_at=torch.tensor([0, kept, kept + FRAMES]),
        said=torch.cat((speech.said[skipped : skipped + kept], speech.said[REFERENCE_FRAMES:])),
    )
    alone = arranged(short, replace(part, skipped=torch.tensor([0])), ids)
    assert torch.equal(rows.text, alone.text)
    assert torch.equal(rows.focus, alone.focus)
    fed = alone.frame[0]
    moved = torch.where(fed >= kept, fed + REFERENCE_FRAMES - kept, torch.where(fed >= 0, fed + skipped + heard, fed))
    assert torch.equal(rows.frame[0], moved)
    assert rows.goal[0].max() == REFERENCE_FRAMES + FRAMES - 1

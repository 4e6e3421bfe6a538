"""Training computes what inference computes.

The training code has its own fused layers, embeddings and heads over the same parameters. If one of them drifted from
the modules of `ttsbench.models`, training would look well and the checkpoint would speak noise.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from scripts.train_tiny.fast_layers import FastStack
from scripts.train_tiny.layouts import NONE, Ids, Rows
from scripts.train_tiny.talker_model import (
    FOCUS_LAYERS,
    SAMPLED_IDS,
    Corruption,
    Focus,
    TalkerModel,
    corrupt,
    initialise,
    moved,
    one_hot,
)
from scripts.train_tiny.train_talker import write
from ttsbench.models.qwen3_tts.checkpoint import Checkpoint
from ttsbench.models.qwen3_tts.transformer import DenseCache

TOY = Path(__file__).parents[2] / "golden" / "toy-base"


@pytest.fixture
def toy() -> Checkpoint:
    return Checkpoint.load(TOY, torch.device("cpu"), torch.float32)


@pytest.fixture
def model(toy: Checkpoint) -> TalkerModel:
    config = toy.config
    ids = Ids((0, 1, 2), 3, 4, 5, eos=config.control.eos)
    return TalkerModel(config, toy.model.talker, ids, 0.0, False)


def test_fast_layers_are_the_modules_layers(toy: Checkpoint) -> None:
    """Red when a norm, a rotation or a residual differs: the two runs share weights alone."""
    stack = toy.model.talker.model
    torch.manual_seed(0)
    x = torch.randn(3, 9, toy.config.talker.hidden_size)
    cache = DenseCache(toy.config.talker, 3, 9, x)
    slow = stack.run(x, torch.arange(9), cache.attend)
    fast = FastStack(stack, 0.0, False)(x.flatten(0, 1), 3).view_as(x)
    # float32, a few layers: sums in another order
    torch.testing.assert_close(fast, slow, rtol=1e-5, atol=1e-5)


def test_predictor_logits_are_those_of_decoding(toy: Checkpoint, model: TalkerModel) -> None:
    """Teacher forcing at once gives what step-by-step decoding saw. Red when the codes are fed one place off."""
    torch.manual_seed(0)
    predictor = toy.model.talker.code_predictor
    codes = torch.randint(toy.config.codebook_size, (4, toy.config.num_codebooks))
    hidden = torch.randn(4, toy.config.talker.hidden_size)
    seen: list[Tensor] = []

    def draw(book: int, logits: Tensor) -> Tensor:
        seen.append(logits)
        return codes[:, book]

    predictor(hidden, toy.model.talker.embed_codec(codes[:, 0]), draw)
    ours = model.predictor_logits(hidden, codes, training=False)
    # float32 logits of order ten, sums in another order
    torch.testing.assert_close(ours, torch.stack(seen, 1), rtol=1e-4, atol=1e-4)


def test_first_code_logits_are_rows_of_the_head(toy: Checkpoint, model: TalkerModel) -> None:
    """Codes, then the end of speech, then the idle rows as one: the probabilities are those of the whole head once the
    idle row is spread. Red when the idle row is counted once, or the end stands elsewhere."""
    hidden = torch.randn(5, toy.config.talker.hidden_size)
    model.spread_idle_rows()
    size, eos = toy.config.codebook_size, toy.config.control.eos
    full = toy.model.talker.logits(hidden)
    open_to_sampling = torch.cat((full[:, :SAMPLED_IDS], full[:, eos : eos + 1]), 1).softmax(-1)
    ours = model.code_logits(hidden).softmax(-1)
    torch.testing.assert_close(ours[:, :size], open_to_sampling[:, :size])
    torch.testing.assert_close(ours[:, size], open_to_sampling[:, -1])
    torch.testing.assert_close(ours[:, -1], open_to_sampling[:, size:-1].sum(1))


def test_written_weights_never_draw_an_idle_code(toy: Checkpoint, model: TalkerModel, tmp_path: Path) -> None:
    """All idle rows of the file are the trained one. Red when `write` does not spread it: samplers would then draw ids
    that no codebook has."""
    write(model, tmp_path / "talker.safetensors")
    head = load_file(tmp_path / "talker.safetensors")["codec_head.weight"]
    size, eos = toy.config.codebook_size, toy.config.control.eos
    idle = torch.arange(len(head)) >= size
    idle[eos] = False
    assert (head[idle] == head[size]).all()
    assert not torch.equal(head[eos], head[size])


def test_one_hot_of_no_id_is_nothing() -> None:
    assert one_hot(torch.tensor([2, -1]), 3, torch.float32).tolist() == [[0, 0, 1], [0, 0, 0]]


def rows(focus: Tensor) -> Rows:
    return Rows(focus, focus, focus, focus, focus, focus)


def test_focus_loss_falls_to_nothing_on_the_wanted_token() -> None:
    """Queries that match one key: the loss is small when that key is the wanted one and large when it is not."""
    keys = torch.eye(4)[None, :, None] * 30
    wanted = torch.tensor([[0, 0, 1, 1]])
    queries = torch.eye(4)[wanted[0]][None, :, None] * 30
    looking, elsewhere = Focus(rows(wanted)), Focus(rows(torch.tensor([[NONE, 1, 0, 0]])))
    for focus in (looking, elsewhere):
        focus.watch(FOCUS_LAYERS[0], queries, keys)
        focus.watch(FOCUS_LAYERS[0] + 1, queries, -keys)  # no focus layer: ignored
        assert len(focus.losses) == 1
    assert looking.losses[0] < 1e-3 < 1 < elsewhere.losses[0]
    assert looking.hits[0] == 1
    assert elsewhere.hits[0] == 0


def test_corruption_hits_references_less_and_nothing_that_is_not_there() -> None:
    """The first 10 frames are not heard, the next 20 are a reference's. Red when one rate serves for all frames, or
    when a frame that is not there is counted as lost."""
    torch.manual_seed(0)
    codes = torch.randint(256, (1024, 50, 16))
    heard = (torch.arange(50) >= 10).repeat(1024, 1)
    own = torch.arange(50).expand(1024, -1) >= 30
    made, kept = corrupt(codes, heard, own, Corruption())
    assert torch.equal(made[:, :10], codes[:, :10])
    assert not kept[:, :10].any()

    def lost_and_swapped(part: slice) -> tuple[float, float]:
        lost, swapped = ~kept[:, part], (made[:, part] != codes[:, part]).any(2)
        return float(lost.float().mean()), float(swapped.float().mean())

    # A sequence's rate is 0.4 on the mean, with deviation 0.33, of 0.7 or 0.3. With 20 frames of each kind in each of
    # 1,024 sequences, both figures are known to 0.0062 and 0.0025 for own frames, 0.0031 and 0.0018 for a reference's:
    # four of these are allowed.
    for part, most, errors in ((slice(30, None), 0.7, (0.025, 0.01)), (slice(10, 30), 0.3, (0.0125, 0.0072))):
        hit, swap = 0.4 * most, 0.04
        lost, swapped = lost_and_swapped(part)
        assert lost == pytest.approx(hit * 0.8 * (1 - swap), abs=errors[0])
        assert swapped == pytest.approx(swap + (1 - swap) * hit * 0.2, abs=errors[1])


def test_vectors_move_by_a_part_of_their_own_size() -> None:
    """Red when the noise has one size for all vectors: the long one would then move too little."""
    torch.manual_seed(0)
    vectors = torch.ones(2, 4096) * torch.tensor([[1.0], [10.0]])
    step = (moved(vectors, 0.15) - vectors).std(1)
    # the deviation of 4,096 draws is known to about one in a hundred
    torch.testing.assert_close(step, torch.tensor([0.15, 1.5]), rtol=0.05, atol=0)


def test_initialisation_fills_every_table(model: TalkerModel) -> None:
    """Tables start as uninitialised memory. Red when a parameter's name is missed."""
    for parameter in model.talker.parameters():
        parameter.data.fill_(float("nan"))
    initialise(model.talker)
    assert all(p.isfinite().all() for p in model.talker.parameters())

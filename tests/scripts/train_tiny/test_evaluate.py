"""The evaluation: what is counted, and that a whole one runs through with checkpoints that end by themselves."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from scripts.train_tiny import evaluate, evaluate_report, evaluate_takes
from scripts.train_tiny.config import HOP
from scripts.train_tiny.evaluate_figures import Measured, References, figures, last_word_right, measure
from scripts.train_tiny.evaluate_sound import clipped_samples, edge_ratio, level_dbfs
from scripts.train_tiny.evaluate_takes import Take
from scripts.train_tiny.evaluate_teacher import SEEN
from scripts.train_tiny.evaluate_voices import EmbeddedJudge, IndependentJudge
from tests.cli.harness import BASE, CLIPS, CUSTOM_VOICE, terse
from ttsbench.core import TextLayout
from ttsbench.corpus import load_corpus
from ttsbench.records import RowStatus
from ttsbench.score.wer import WordEdits


@pytest.mark.parametrize(
    ("reference", "hypothesis", "right"),
    [
        ("the dog barked", "the dog barked", True),
        ("the dog barked", "a dog barked loudly", True),
        ("the dog barked", "the dog", False),
        ("the dog barked", "barked the dog", False),
        ("the dog barked", "the dog parked", False),
        ("the dog barked", "", False),
    ],
)
def test_last_word_counts_where_the_alignment_has_it(reference, hypothesis, right):
    """`reference.split()[-1] in hypothesis.split()` would let the fourth case pass."""
    assert last_word_right(reference, hypothesis) is right


def breath(seconds: float = 4.0) -> np.ndarray:
    """Coloured noise: speech-like in that neighbouring samples are alike."""
    noise = np.random.default_rng(0).normal(size=round(24_000 * seconds))
    smooth = np.convolve(noise, np.hanning(12), "same")
    return (0.05 * smooth / smooth.std()).astype(np.float32)


def test_steps_at_frame_edges_stand_out_and_nothing_else_does():
    """Take the jumps of all places for those at the edges and the second figure is 1 as well.

    Sound without edges scatters around 1 as 49 edges allow: its bound was met with room for ten seeds.
    """
    sound = breath()
    assert edge_ratio(sound) == pytest.approx(1, abs=0.4)
    stepped = sound + 0.04 * (np.arange(len(sound)) // HOP % 2).astype(np.float32)
    assert (edge_ratio(stepped) or 0) > 1.7
    shifted = np.roll(stepped, HOP // 2 + 7)
    assert (edge_ratio(shifted) or 9) < 1.4


def test_silence_has_neither_edges_nor_a_level():
    assert edge_ratio(np.zeros(96_000, np.float32)) is None
    assert level_dbfs(np.zeros(96_000, np.float32)) is None


def test_level_is_that_of_the_spoken_part():
    """Count the pauses in and it falls by 6 dB. A sine of amplitude 0.1 has an RMS of -23 dBFS."""
    tone = 0.1 * np.sin(0.1 * np.arange(48_000))
    paused = np.concatenate([np.zeros(72_000), tone, np.zeros(72_000)]).astype(np.float32)
    assert level_dbfs(paused) == pytest.approx(-23.0, abs=0.1)


def test_clipped_samples_are_those_at_full_scale():
    assert clipped_samples(np.array([0.5, 32767 / 32768, -1.0, 0.99], np.float32)) == 2


def made(voice: str = "a", seed: int = 0, row: str = "r", errors: int = 0, **changes) -> Measured:
    """A take of ten words without sound, or with the given vector."""
    take = Take("streaming", seed, voice, row, changes.pop("status", RowStatus.OK), None, "", "", False)
    take = replace(take, silent=changes.pop("silent", False))
    vector = changes.pop("vector", None)
    vectors = {} if vector is None else {"j": np.array(vector) / np.linalg.norm(vector)}
    plain = Measured(take, WordEdits(errors, 0, 0, 10), True, 2.0, -20.0, 0, 1.0, None, vectors)
    return replace(plain, **changes)


def test_a_voice_meets_its_own_mean_without_the_take_itself():
    """With the take left in, its cosine to its own mean would be near 1 and it would be nearest to itself."""
    takes = [
        made("a", vector=[1, 0.0]),
        made("a", vector=[0.0, 1]),
        made("b", vector=[1, 0.1]),
        made("b", vector=[1, 0]),
    ]
    references = References.of({v: [one.vectors for one in takes if one.take.voice == v] for v in "ab"})
    cosines, own = references.cosines("j", takes, among=True)
    assert own.tolist() == [0, 0, 1, 1]
    assert cosines[0, 0] == pytest.approx(0)
    assert cosines[2, 1] == pytest.approx(takes[2].vectors["j"] @ takes[3].vectors["j"])
    assert figures(takes, references, {}, among=True)["nearest_own_pct"]["j"] == 50
    assert references.cosines("j", takes, among=False)[0][0, 0] == pytest.approx(np.sqrt(0.5))


def test_figures_count_what_cannot_be_heard_against_the_voice():
    """Leave takes without sound out of the share, or average seeds instead of taking the worst, and it fails."""
    takes = [
        made(seed=0, errors=1, vector=[1, 0]),
        made(seed=0, errors=0, vector=[1, 0], status=RowStatus.LENGTH),
        made(seed=1, errors=9, vector=[1, 0.0], row="s"),
        made(seed=1, errors=10, silent=True, seconds=None, status=RowStatus.EMPTY),
    ]
    references = References.of({"a": [{"j": np.array([1.0, 0])}], "b": [{"j": np.array([0, 1.0])}]})
    found = figures(takes, references, {("a", "r"): 1.0, ("a", "s"): 4.0})
    assert found["wer_pct"] == 50
    assert found["wer_pct_worst_seed"] == 95
    assert (found["rows_at_length_limit"], found["silent_rows"], found["failed_rows"]) == (1, 1, 0)
    assert found["nearest_own_pct"] == {"j": 75}
    assert found["duration_ratio"] == pytest.approx((2 + 2 + 0.5) / 3)
    assert found["dnsmos"] is None


def test_a_take_that_was_not_heard_has_lost_every_word():
    take = Take("streaming", 0, "a", "r", RowStatus.EMPTY, None, "the dog barked", None, True)
    found = measure(take, (), None)
    assert (found.edits.deletions, found.last_word_right, found.seconds) == (3, False, None)


@pytest.mark.parametrize(("value", "at_most", "met"), [(12.0, True, True), (12.1, True, False), (11.9, False, False)])
def test_a_line_is_met_at_its_bound(value, at_most, met):
    assert evaluate_report.Must("x", value, 12, at_most).met is met


def test_a_missing_figure_meets_no_line():
    assert not evaluate_report.Must("x", None, 0, at_most=True).met
    assert "**not met**" in evaluate_report.must_table([evaluate_report.Must("x", None, 0, at_most=True)])


class Deaf:
    """A recogniser that hears one word in everything."""

    workers = 1
    cacheable = False

    def pinned(self):
        return {"engine": "deaf"}

    def found(self):
        return {}

    def versions(self):
        return {}

    def open(self):
        return self

    def transcribe(self, clip):
        return "dog"


@pytest.fixture
def teacher(tmp_path):
    """What `evaluate_teacher` writes, of noise."""
    corpus = load_corpus("mini-en")
    for row in corpus.rows:
        for speaker in ("alba", "bruno"):
            path = tmp_path / "teacher" / "named" / speaker / f"{row.utterance_id}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, breath(0.5), 24_000)
    cloning = tmp_path / "teacher" / "cloning" / "en"
    cloning.mkdir(parents=True)
    (cloning / "prompt-wavs").symlink_to(CLIPS)
    clips = ("af_heart", "bf_emma")
    assert clips[0] in SEEN
    lines = [f"{clip}-{n:03d}|Some words.|prompt-wavs/{clip}.wav|A dog." for n, clip in enumerate(clips)]
    (cloning / "meta.lst").write_text("\n".join(lines) + "\n")
    return tmp_path / "teacher"


def test_a_whole_evaluation_runs_and_can_be_made_again(tmp_path, monkeypatch, teacher):
    """Two checkpoints end to end: all rows are there, each in its group; a second call speaks nothing anew.

    Let `takes_of` name every take's manner "streaming" and the groups no longer hold their rows.
    """
    named, base = terse(CUSTOM_VOICE, tmp_path / "named"), terse(BASE, tmp_path / "base")
    monkeypatch.setattr(evaluate_takes, "PROTOCOL", replace(evaluate_takes.PROTOCOL, asr=Deaf()))
    monkeypatch.setattr(evaluate, "draw", lambda *arguments: None)
    speakers = json.loads((named / "config.json").read_text())["talker_config"]["spk_id"]
    for speaker in speakers:
        if not (teacher / "named" / speaker).exists():
            (teacher / "named" / speaker).symlink_to(teacher / "named" / "alba")
    options = evaluate.Options(tmp_path / "out", teacher, (0, 1), tuple(TextLayout), False, 2 * len(speakers))
    options.out.mkdir()
    judges = EmbeddedJudge(base), IndependentJudge()
    ears = evaluate.Ears(judges, None)
    results = {}
    for _ in range(2):
        results = {
            "tiny": evaluate.evaluate_named(str(named), options, ears),
            "tiny-base": evaluate.evaluate_base(str(base), replace(options, first=None), ears),
        }
        monkeypatch.setattr(evaluate_takes, "score_under", pytest.fail)
    groups = results["tiny"].tables["tiny"]
    assert [group["rows"] for group in groups.values()] == [4 * len(speakers)] * 2 + [64 * len(speakers)]
    assert {group["rows"] for group in results["tiny"].tables["tiny, non_streaming, by voice"].values()} == {4}
    assert [group["rows"] for group in results["tiny-base"].tables["tiny-base"].values()] == [4, 4]
    parts = results["tiny-base"].tables["tiny-base, in_context, by whether training had heard the voice"]
    assert {name: group["rows"] for name, group in parts.items()} == {"seen": 2, "unseen": 2}
    evaluate.write_report(options.out, results, ears, options)
    lines = (options.out / "report.md").read_text().splitlines()
    stored = json.loads((options.out / "report.json").read_text())
    assert len([line for line in lines if line.startswith("| in_context")]) == 5 + 2 * 2
    assert len(stored["lines"]) == 2 * (5 + 2 * len(speakers)) + 2 * (5 + 2 * 2)

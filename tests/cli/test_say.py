"""`say`: one sentence to one file, or every reason why not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.cli.harness import (
    BASE,
    CLIPS,
    CUSTOM_VOICE,
    GOLDEN,
    VOICE_DESIGN,
    Ended,
    pcm_of,
    refuse_writing,
    ttsbench,
    write_clip,
)

CLIP = CLIPS / "af_bella.wav"


def say(out: Path, text: str = "Hi.", model: object = CUSTOM_VOICE, *options: object) -> Ended:
    return ttsbench("say", text, "--out", out, "--model", model, "--max-frames", 12, *options)


def test_the_embedded_checkpoint_speaks(tmp_path: Path) -> None:
    """Goes red when the package cannot speak without any option: 0.5 to 2 s of sound for a short word."""
    ended = ttsbench("say", "Hello.", "--out", tmp_path / "hello.wav", "--seed", 1)
    assert ended.code == 0, ended.err
    samples, rate = soundfile.read(tmp_path / "hello.wav")
    assert rate == 24_000
    assert 0.5 <= len(samples) / rate <= 2
    assert np.abs(samples).max() > 0.05
    assert "seed 1" in ended.err
    assert ended.out == ""


def test_a_seed_decides_the_noise_and_zero_is_a_seed(tmp_path: Path) -> None:
    """Goes red when a seed is ignored, when 0 means "not set", or when it does not tell which seed it drew."""
    for name, seed in (("a", 7), ("b", 7), ("c", 8), ("d", 0), ("e", 0)):
        assert f"seed {seed}" in say(tmp_path / f"{name}.wav", "Hi.", CUSTOM_VOICE, "--seed", seed).err
    a, b, c, d, e = ((tmp_path / f"{name}.wav").read_bytes() for name in "abcde")
    assert a == b
    assert d == e
    assert len({a, c, d}) == 3
    drawn = int(say(tmp_path / "f.wav").err.split("seed ")[1].split()[0])
    say(tmp_path / "g.wav", "Hi.", CUSTOM_VOICE, "--seed", drawn)
    assert (tmp_path / "f.wav").read_bytes() == (tmp_path / "g.wav").read_bytes()


@pytest.mark.parametrize("options", [(CUSTOM_VOICE,), (BASE, "--reference", CLIP)], ids=["named", "cloned"])
def test_the_text_layout_reaches_the_model(tmp_path: Path, options: tuple[object, ...]) -> None:
    """Goes red when `_request` takes the default layout whatever was asked: the two files are then the same."""
    for layout in ("streaming", "non_streaming"):
        say(tmp_path / f"{layout}.wav", "Hi.", *options, "--seed", 7, "--text-layout", layout)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == len(list(tmp_path.iterdir())) == 2


def test_an_utterance_that_is_cut_says_so(tmp_path: Path) -> None:
    """Goes red when a finish by length looks like success, or has other than its limit of frames."""
    ended = say(tmp_path / "a.wav", "Hi.", BASE, "--reference", CLIP, "--seed", 7)
    assert ended.code == 4
    assert "cut at its limit of 12 frames" in ended.err
    assert len(pcm_of(tmp_path / "a.wav")) == 12 * 1920


def test_an_utterance_cut_by_the_model_length_names_that_limit(tmp_path: Path) -> None:
    """Goes red when a longer --max-frames is recommended to somebody whom it cannot help."""
    ended = say(tmp_path / "a.wav", "Hi.", BASE, "--reference", CLIP, "--seed", 7, "--override", "max_model_len=16")
    assert ended.code == 4
    assert "max_model_len" in ended.err
    assert "--max-frames" not in ended.err
    assert len(pcm_of(tmp_path / "a.wav")) < 12 * 1920


def test_every_fault_is_told_at_once_and_nothing_is_written(tmp_path: Path) -> None:
    """Goes red when checking stops at the first fault, or an existing file is touched."""
    out = write_clip(tmp_path / "a.wav", np.zeros(10))
    before = out.read_bytes()
    ended = say(out, " \t", CUSTOM_VOICE, "--voice", "vivien", "--language", "klingon", "--override", "max_num_sqs=3")
    assert ended.code == 2
    assert "5 problems" in ended.err
    assert f"--out {out}: expected a file that does not exist yet" in ended.err
    assert "empty_text" in ended.err
    assert "expected one of eric, serena, vivian, got 'vivien'; did you mean 'vivian'?" in ended.err
    assert "expected one of auto, chinese, english, german, got 'klingon'" in ended.err
    assert "did you mean 'max_num_seqs'?" in ended.err
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (CUSTOM_VOICE, ("--reference", CLIP), "this checkpoint is custom_voice and clones no voice"),
        (CUSTOM_VOICE, ("--transcript", "Hi."), "this checkpoint is custom_voice and clones no voice"),
        (GOLDEN / "toy-custom-voice-0b6", ("--instruct", "Whisper."), "checkpoints of size 0b6 ignore them"),
        (BASE, (), "a clip to clone, since the checkpoint is a Base one"),
        (BASE, ("--voice", "vivian", "--reference", CLIP), "this checkpoint is base and takes reference clips"),
        (BASE, ("--instruct", "calm", "--reference", CLIP), "Base checkpoints take none"),
        (BASE, ("--reference", "no-such.wav"), "reference_missing"),
        (BASE, ("--reference", CLIP, "--transcript", "..."), "no_speakable_text"),
        (VOICE_DESIGN, (), "a description of the voice"),
        (VOICE_DESIGN, ("--instruct", " "), "expected words, got ' '"),
        (VOICE_DESIGN, ("--voice", "vivian", "--instruct", "calm"), "this checkpoint is voice_design"),
        (CUSTOM_VOICE, ("--seed", 2**63), "--seed"),
        (CUSTOM_VOICE, ("--text-layout", "whole"), "'whole' is not one of"),
        (CUSTOM_VOICE, ("--override", "pipeline"), "expected key=value"),
    ],
)
def test_what_a_checkpoint_cannot_serve_is_refused(
    tmp_path: Path, model: Path, options: tuple[object, ...], words: str
) -> None:
    """Goes red when an option that this kind of checkpoint ignores is accepted, or a missing one is guessed."""
    ended = say(tmp_path / "a.wav", "Hi.", model, *options)
    assert ended.code == 2
    assert words in ended.err
    assert not (tmp_path / "a.wav").exists()


def test_a_clip_is_cloned_in_context_or_by_x_vector(tmp_path: Path) -> None:
    """Goes red when the transcript, or the clip itself, does not reach the model."""
    for name, options in {
        "x-vector": ("--reference", CLIP),
        "in-context": ("--reference", CLIP, "--transcript", "We baked a plum cake."),
        "other-words": ("--reference", CLIP, "--transcript", "The path climbs gently."),
        "other-clip": ("--reference", CLIPS / "bm_george.wav"),
    }.items():
        assert say(tmp_path / f"{name}.wav", "Hi.", BASE, "--seed", 1, *options).code == 4
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 4


def test_a_description_makes_a_voice(tmp_path: Path) -> None:
    """Goes red when the description does not reach a VoiceDesign checkpoint."""
    for name in ("calm", "angry"):
        ended = say(tmp_path / f"{name}.wav", "Hi.", VOICE_DESIGN, "--seed", 1, "--instruct", f"A {name} man.")
        assert ended.code in (0, 4), ended.err
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 2


def test_a_missing_folder_is_a_fault(tmp_path: Path) -> None:
    """Goes red when the model speaks first and the file cannot be written afterwards."""
    ended = say(tmp_path / "nowhere" / "a.wav")
    assert ended.code == 2
    assert f"no folder {tmp_path / 'nowhere'}" in ended.err


def test_a_folder_that_cannot_be_written_to_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes red when the model speaks first and the file cannot be written afterwards."""
    refuse_writing(monkeypatch)
    monkeypatch.setattr("ttsbench.experiment.utterance.NativeEngine", lambda *_: pytest.fail("the model was read"))
    ended = say(tmp_path / "a.wav")
    assert ended.code == 2
    assert f"expected a folder that can be written to, got no permission to write into {tmp_path}" in ended.err

"""Faults of speech synthesis that others met, each tried whole; docs/pitfalls.md says which row is tested where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.cli.harness import BASE, CLIPS, CUSTOM_VOICE, check_run_folder, outcomes, ttsbench, write_list
from tests.engine.toys import HOP, TEXTS, ToyEngine, end_after, request
from ttsbench.adapters.native import NativeEngine
from ttsbench.core import FinishReason, ReferenceVoice, SamplingParams, SpeechRequest
from ttsbench.engine.fused import FusedEngine
from ttsbench.experiment.rows import row_seed
from ttsbench.models.qwen3_tts.codec_stream import StreamingCodec
from ttsbench.profile import load_profile
from ttsbench.records import RowStatus, read_requests

ROOT = Path(__file__).parents[2]


def test_a_row_without_a_frame_has_its_record_and_its_neighbours_their_own_audio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BL-17, BL-34. Goes red when a row of no frames vanishes, blocks its slot, or shifts the audio of the others.

    One slot, so that every row runs in the one the empty row had.
    """
    end_after(monkeypatch, {row_seed(7, "b"): 0})
    made = write_list(tmp_path / "en" / "meta.lst", "a|One.", "b|Two.", "c|Three.", "d|Four.")
    options = ("--override", "default_sampling_params.min_tokens=0", "--override", "max_num_seqs=1")
    run = tmp_path / "run"
    ended = ttsbench(
        "synth", "--set", made, "--model", CUSTOM_VOICE, "--out", run, "--seed", 7, "--max-frames", 3, *options
    )
    assert ended.code == 4
    assert "b: empty" in ended.err
    rows = read_requests(run).rows
    assert [(rows[i].utterance_id, rows[i].text, rows[i].status) for i in range(4)] == [
        ("a", "One.", RowStatus.LENGTH),
        ("b", "Two.", RowStatus.EMPTY),
        ("c", "Three.", RowStatus.LENGTH),
        ("d", "Four.", RowStatus.LENGTH),
    ]
    assert len({rows[i].wav_sha256 for i in (0, 2, 3)}) == 3
    check_run_folder(run)


AWKWARD = (
    "emoji|😄你好😄",
    "tag|[laugh] That is funny.",
    "sad|(sad) oh",
    "dots|Guys..",
    "alone|😄",
    "bang|……！？",
)


def test_awkward_texts_get_the_same_answer_streamed_and_whole(tmp_path: Path) -> None:
    """BL-07, BL-08. Goes red when a text is refused in one mode and spoken in the other, or spoken otherwise."""
    made = write_list(tmp_path / "en" / "meta.lst", *AWKWARD)
    for mode in ("stream", "full"):
        options = ("--seed", 1, "--max-frames", 4, f"--{mode}")
        assert ttsbench("synth", "--set", made, "--model", CUSTOM_VOICE, "--out", tmp_path / mode, *options).code == 4
    streamed, whole = outcomes(tmp_path / "stream"), outcomes(tmp_path / "full")
    assert streamed == whole
    assert {name for name, (status, *_) in whole.items() if status == "invalid"} == {"alone", "bang"}


def test_a_language_has_one_meaning_however_it_is_written(tmp_path: Path) -> None:
    """BL-09. Goes red when an alias or a capital changes the prompt, or the record keeps what was typed alone."""
    made = write_list(tmp_path / "en" / "meta.lst", "a|I was 18, 70 years later.")
    heard = {}
    for language in ("en", "English", "ENGLISH", "chinese"):
        run = tmp_path / "runs" / language
        options = ("--language", language, "--seed", 1, "--max-frames", 3)
        assert ttsbench("synth", "--set", made, "--model", CUSTOM_VOICE, "--out", run, *options).code == 4
        (record,) = read_requests(run).rows.values()
        assert record.language_requested == language
        heard[language] = (record.language_effective, (run / "wav" / "a.wav").read_bytes())
    assert heard["en"] == heard["English"] == heard["ENGLISH"]
    assert heard["en"][0] == "english"
    assert heard["chinese"][1] != heard["en"][1]


@pytest.mark.parametrize("ends", [True, False], ids=["stop", "length"])
@pytest.mark.parametrize(("frames", "sizes"), [(1, [1]), (25, [25]), (26, [25, 1]), (50, [25, 25])])
def test_the_rest_of_a_chunk_is_flushed(
    monkeypatch: pytest.MonkeyPatch, frames: int, sizes: list[int], ends: bool
) -> None:
    """BL-28. Goes red when frames short of a chunk are never emitted, or emitted twice by an end on a chunk's edge."""
    end_after(monkeypatch, {1: frames} if ends else {})
    asked = request("a", seed=1, max_frames=frames + ends, sampling=SamplingParams(min_frames=0))
    heard = ToyEngine(chunk_frames=25).speak([asked])["a"]
    assert heard.reason is (FinishReason.STOP if ends else FinishReason.LENGTH)
    assert [len(chunk.pcm) // HOP for chunk in heard.chunks if len(chunk.pcm)] == sizes
    assert len(heard.pcm) == frames * HOP


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_codec_that_overflows_fails_its_row_alone(monkeypatch: pytest.MonkeyPatch, bad: float) -> None:
    """BL-39. Goes red when only logits are checked: the WAV would be valid, silent and called a success.

    At `batch_invariant`: elsewhere the others' last bits may depend on how many rows are left.
    """
    inner = StreamingCodec.step

    def step(self: StreamingCodec, codes: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        pcm = inner(self, codes, slots)
        pcm[slots == 1, 7] = bad
        return pcm

    asked = [request(name, TEXTS[i], seed=i, max_frames=4) for i, name in enumerate("abc")]
    fine = ToyEngine(batch_invariant=True).speak(asked)
    monkeypatch.setattr(StreamingCodec, "step", step)
    heard = ToyEngine(batch_invariant=True).speak(asked)
    failed = [name for name in "abc" if heard[name].reason is FinishReason.FAILED]
    assert len(failed) == 1
    finish = heard[failed[0]].chunks[-1].finish
    assert finish is not None
    assert finish.code == "non_finite"
    for name in set("abc") - set(failed):
        assert heard[name].pcm.tobytes() == fine[name].pcm.tobytes()


def test_a_listener_that_leaves_costs_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """BL-36. Goes red when the engine goes on for a listener that is gone, or what it left behind colours the next row.

    Left after its first chunk, an utterance stands still, and cancelling it frees its slot for the next one.
    """
    steps: list[int] = []
    inner = FusedEngine.step

    def step(self: FusedEngine) -> None:
        steps.append(1)
        inner(self)

    monkeypatch.setattr(FusedEngine, "step", step)
    engine, following = ToyEngine(max_num_seqs=1), request("b", TEXTS[1], seed=2)
    engine.submit(request("a", seed=1, max_frames=40))
    chunks = iter(engine.chunks())
    assert next(chunks).frames == (0, 1)
    chunks.close()  # type: ignore[attr-defined]
    before = len(steps)
    assert engine.cancel("a")
    (last,) = engine.chunks()
    assert last.finish is not None
    assert last.finish.reason is FinishReason.CANCELLED
    assert len(steps) == before
    engine.assert_empty()
    alone = ToyEngine(max_num_seqs=1).speak([following])["b"]
    assert engine.speak([following])["b"].pcm.tobytes() == alone.pcm.tobytes()


def test_names_outside_ascii_work_under_the_c_locale(tmp_path: Path) -> None:
    """BL-44. Goes red when a list, a record or a name is decoded by `locale.getencoding()`, which is ASCII here.

    The whole command in a process of its own, since a locale is settled when a process starts. LC_ALL and not LANG:
    Python may replace the latter by C.UTF-8, and nothing would be tested.
    """
    clip = (CLIPS / "af_bella.wav").read_bytes()
    folder = tmp_path / "输入 dir" / "zh"
    names = ["测试-1", "é☃", "a b"]
    made = write_list(folder / "meta.lst", *(f"{name}|We baked a plum cake.|声音 ☃.wav|你好。" for name in names))
    (folder / "声音 ☃.wav").write_bytes(clip)
    run = tmp_path / "输出 dir"
    options = ("--model", str(BASE), "--max-frames", "2", "--seed", "1")
    command = [sys.executable, "-c", "from ttsbench.cli.main import app; app()", "synth", "--set", str(made)]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "LC_ALL": "C"}
    done = subprocess.run([*command, "--out", str(run), *options], env=environment, capture_output=True, check=False)
    err = done.stderr.decode("utf-8")
    assert done.returncode == 4, err
    assert "测试-1: length" in err
    assert done.stdout.decode("utf-8") == f"{run}\n"
    rows = read_requests(run).rows
    assert {r.utterance_id: r.wav_path for r in rows.values()} == {name: f"wav/{name}.wav" for name in names}
    assert {r.text for r in rows.values()} == {"你好。"}
    check_run_folder(run)


def test_a_cached_clip_brings_its_voice_and_not_its_old_words(tmp_path: Path) -> None:
    """BL-16. Goes red when an encoded clip is found again by path, or is kept together with a former transcript.

    One engine speaks in turn with two clips and two transcripts; each utterance is as that of a fresh engine.
    """
    (tmp_path / "x.wav").write_bytes((CLIPS / "af_bella.wav").read_bytes())
    (tmp_path / "y.wav").write_bytes((CLIPS / "bm_george.wav").read_bytes())
    voices = [
        ReferenceVoice(tmp_path / name, words)
        for name, words in (("x.wav", "We baked a cake."), ("y.wav", "We baked a cake."), ("x.wav", "It is late."))
    ]
    one = base_engine()
    heard = [say(one, voice) for voice in (*voices, voices[0])]
    assert heard == [say(base_engine(), voice) for voice in (*voices, voices[0])]
    assert len(set(heard)) == 3


def base_engine() -> NativeEngine:
    return NativeEngine(str(BASE), load_profile("qwen3_tts_fused_cpu"))


def say(engine: NativeEngine, voice: ReferenceVoice) -> bytes:
    engine.submit(SpeechRequest("r", "u", "Hello there.", voice, seed=3, max_frames=3, language="english"))
    return b"".join(chunk.pcm.tobytes() for chunk in engine.chunks())

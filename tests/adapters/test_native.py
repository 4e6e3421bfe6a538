"""The native engine behind the common interface: voices, references, sampling and what it refuses to run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cli.harness import BASE, CLIPS, CUSTOM_VOICE
from ttsbench.adapters import native
from ttsbench.adapters.native import NativeEngine, last_frames
from ttsbench.core import (
    AudioChunk,
    Finish,
    FinishReason,
    InvalidInput,
    NamedVoice,
    ReferenceVoice,
    SpeechRequest,
    TextLayout,
    Voice,
)
from ttsbench.models.qwen3_tts.config import Qwen3TTSConfig
from ttsbench.profile import Profile, load_profile

REQUEST = SpeechRequest("r", "u", "Hello there.", NamedVoice("serena"), seed=3, max_frames=4, language="english")
WORDS = "We baked a plum cake."


def profile(**overrides: object) -> Profile:
    return load_profile("qwen3_tts_fused_cpu", {key: str(value) for key, value in overrides.items()})


@pytest.fixture(scope="module")
def custom_voice() -> NativeEngine:
    return NativeEngine(str(CUSTOM_VOICE), profile())


@pytest.fixture
def base() -> NativeEngine:
    return NativeEngine(str(BASE), profile())


def run(engine: NativeEngine, voice: Voice, **changes: Any) -> list[AudioChunk]:
    request = replace(REQUEST, voice=voice, sampling=engine.info().default_sampling)
    engine.submit(replace(request, **changes))
    return list(engine.chunks())


def pcm(engine: NativeEngine, voice: Voice, **changes: Any) -> bytes:
    """What the engine says, as bytes; a failure is a failure of the test."""
    chunks = run(engine, voice, **changes)
    assert chunks[-1].finish is not None
    assert chunks[-1].finish.reason is not FinishReason.FAILED, chunks[-1].finish
    return np.concatenate([chunk.pcm for chunk in chunks]).tobytes()


def failure(chunks: list[AudioChunk]) -> Finish:
    (only,) = chunks
    assert only.finish is not None
    assert only.finish.reason is FinishReason.FAILED
    return only.finish


def clip(name: str) -> bytes:
    return (CLIPS / f"{name}.wav").read_bytes()


def test_zero_reference_frames_mean_none() -> None:
    """Goes red when 0 keeps all (as a slice from -0 does), null keeps none, or the first frames are kept."""
    codes = torch.arange(10).reshape(5, 2)
    assert last_frames(codes, 0) is None
    assert last_frames(None, 3) is None
    for count, kept in ((1, [4]), (2, [3, 4]), (5, [0, 1, 2, 3, 4]), (72, [0, 1, 2, 3, 4]), (None, [0, 1, 2, 3, 4])):
        found = last_frames(codes, count)
        assert found is not None
        assert (found[:, 0] // 2).tolist() == kept


def test_reference_frames_prime_the_codec_and_change_no_code(tmp_path: Path) -> None:
    """Goes red when the profile's number of context frames does not reach the codec."""
    voice = ReferenceVoice(CLIPS / "af_bella.wav", WORDS)
    heard = {n: pcm(NativeEngine(str(BASE), profile(ref_code_context_frames=n)), voice) for n in (0, 10, "null")}
    assert len(set(heard.values())) == 3
    assert len({len(data) for data in heard.values()}) == 1
    with pytest.raises(InvalidInput, match="ref_code_context_frames"):
        profile(ref_code_context_frames=-1)


@pytest.mark.parametrize("transcript", ["", " \t", "…!"])
def test_in_context_cloning_needs_words(base: NativeEngine, transcript: str) -> None:
    """Goes red when an empty transcript silently turns in-context cloning into x-vector cloning."""
    finish = failure(run(base, ReferenceVoice(CLIPS / "af_bella.wav", transcript)))
    assert finish.code == "reference_text_missing"


@pytest.mark.parametrize(
    ("data", "code"), [(None, "reference_missing"), (b"RIFF", "reference_unreadable"), (b"", "reference_unreadable")]
)
def test_a_bad_clip_fails_its_request_alone(base: NativeEngine, tmp_path: Path, data: bytes | None, code: str) -> None:
    """Goes red when a clip that vanished or broke after it was checked takes its neighbours along."""
    if data is not None:
        (tmp_path / "x.wav").write_bytes(data)
    good = replace(REQUEST, id="good", voice=ReferenceVoice(CLIPS / "af_bella.wav"))
    base.submit(replace(REQUEST, id="bad", voice=ReferenceVoice(tmp_path / "x.wav")))
    base.submit(good)
    ends = {chunk.request_id: chunk.finish for chunk in base.chunks() if chunk.finish is not None}
    assert ends["bad"].code == code
    assert ends["good"].reason is FinishReason.LENGTH


@pytest.mark.parametrize("name", ["vivian", "Vivian", " VIVIAN "])
def test_speaker_names_ignore_case_and_spaces(custom_voice: NativeEngine, name: str) -> None:
    """Goes red when a name is lower-cased on one side only, or another voice speaks for it."""
    assert pcm(custom_voice, NamedVoice(name)) == pcm(custom_voice, NamedVoice("vivian"))
    assert pcm(custom_voice, NamedVoice(name)) != pcm(custom_voice, NamedVoice("serena"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"voice": NamedVoice("cedar")}, "'cedar'"),
        ({"voice": NamedVoice("Vivian, very happy")}, "'Vivian, very happy'"),
        ({"voice": ReferenceVoice(CLIPS / "af_bella.wav")}, "a named voice"),
        ({"language": "klingon"}, "'klingon'"),
    ],
)
def test_what_is_not_served_has_no_stand_in(custom_voice: NativeEngine, changes: dict[str, Any], words: str) -> None:
    """Goes red when an unknown voice or language speaks with some other one, or raises out of `submit`."""
    voice = changes.pop("voice", NamedVoice("serena"))
    finish = failure(run(custom_voice, voice, **changes))
    assert finish.code == "not_served"
    assert words in finish.detail


def test_unspeakable_text_is_a_fault_of_the_request(custom_voice: NativeEngine) -> None:
    """Goes red when the engine makes noise of punctuation that reached it past the checks of `synth`."""
    assert failure(run(custom_voice, NamedVoice("serena"), text="……！？")).code == "no_speakable_text"


def test_sampling_of_the_profile_lies_over_the_checkpoint() -> None:
    """Goes red when 0 or false is taken for "not set", a value goes to the wrong model, or null overrides."""
    plain = NativeEngine(str(CUSTOM_VOICE), profile()).info()
    assert plain.default_sampling.talker.top_k > 0
    overrides = {
        "default_sampling_params.top_k": 0,
        "default_sampling_params.min_tokens": 0,
        "default_sampling_params.repetition_penalty": 1.5,
        "default_sampling_params.max_tokens": 9,
        "subtalker_sampling_params.do_sample": "false",
        "subtalker_sampling_params.temperature": 0.5,
        "subtalker_sampling_params.top_p": "null",
    }
    info = NativeEngine(str(CUSTOM_VOICE), profile(**overrides)).info()
    talker, predictor = plain.default_sampling.talker, plain.default_sampling.code_predictor
    assert info.default_sampling.talker == replace(talker, top_k=0)
    assert info.default_sampling.code_predictor == replace(predictor, do_sample=False, temperature=0.5)
    assert (info.default_sampling.min_frames, info.default_sampling.repetition_penalty) == (0, 1.5)
    assert (info.default_max_frames, plain.default_max_frames > 9) == (9, True)


def test_layout_and_tokenizer_of_the_profile_reach_the_prompt(custom_voice: NativeEngine) -> None:
    """Goes red when text_layout or tokenizer_split is read from the profile and then forgotten."""
    streaming = NativeEngine(str(CUSTOM_VOICE), profile(text_layout="streaming", tokenizer_split="mistral"))
    assert streaming.info().default_text_layout is TextLayout.STREAMING
    assert custom_voice.info().default_text_layout is TextLayout.NON_STREAMING
    assert (streaming.checkpoint.tokenizer.split, custom_voice.checkpoint.tokenizer.split) == ("mistral", "qwen2")
    assert pcm(streaming, NamedVoice("serena")) != pcm(custom_voice, NamedVoice("serena"))
    asked = {"text_layout": TextLayout.STREAMING}
    assert pcm(streaming, NamedVoice("serena")) == pcm(custom_voice, NamedVoice("serena"), **asked)


def faults(**overrides: object) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        NativeEngine(str(CUSTOM_VOICE), profile(**overrides))
    return [problem.where for problem in caught.value.problems]


def test_profiles_that_cannot_run_here_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes red when a two-stage profile runs fused, cuda falls back to cpu, or a budget fails with a traceback."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    two_stage = {"pipeline": "qwen3_tts", "talker_stream_decode": "false"}
    where = "profile qwen3_tts_fused_cpu"
    assert faults(**two_stage) == [f"{where}: pipeline"]
    assert faults(device="cuda") == [f"{where}: device"]
    assert faults(max_num_seqs=9, max_num_batched_tokens=8) == [f"{where}: max_num_batched_tokens"]
    assert faults(**two_stage, device="cuda") == [f"{where}: pipeline", f"{where}: device"]
    invariant = {"determinism": "batch_invariant", "max_num_seqs": 2}
    assert faults(max_num_batched_tokens=64, **invariant) == [f"{where}: max_num_batched_tokens"]
    if not torch.cuda.is_available():  # a GPU cuts prompts anywhere
        assert faults(max_num_batched_tokens=64, device="cuda", **invariant) == [f"{where}: device"]
    NativeEngine(str(CUSTOM_VOICE), profile(max_num_batched_tokens=65, **invariant))


def test_blocks_are_reserved_unless_the_profile_says_otherwise() -> None:
    """Goes red when `capacity_scheduler_policy` does not reach the engine, or does what its other value should."""
    small = {"max_num_seqs": 2, "max_model_len": 64, "block_size": 4, "num_kv_blocks": 16}
    said = {}
    for policy in ("guaranteed_no_evict", "max_utilization"):
        overrides = {**small, "determinism": "batch_invariant", "capacity_scheduler_policy": policy}
        engine = NativeEngine(str(CUSTOM_VOICE), profile(**overrides))
        sampling = replace(engine.info().default_sampling, min_frames=40)
        for name in ("a", "b"):
            engine.submit(replace(REQUEST, id=name, max_frames=40, sampling=sampling))
        chunks = list(engine.chunks())
        said[policy] = {n: b"".join(c.pcm.tobytes() for c in chunks if c.request_id == n) for n in ("a", "b")}
        assert (engine.stats()["preemptions"] > 0) is (policy == "max_utilization")
    assert said["guaranteed_no_evict"] == said["max_utilization"]


def test_what_the_engine_says_about_itself(custom_voice: NativeEngine) -> None:
    """Goes red when the records would name another device, number type, hop or level than the one that ran."""
    info = custom_voice.info()
    assert (info.name, info.mode, info.device, info.dtype) == ("native", "fused", "cpu", "float32")
    assert (info.sample_rate_hz, info.hop_samples, info.determinism) == (24_000, 1920, "seeded")
    assert info.speakers == ("serena", "vivian", "eric")
    assert "sichuan_dialect" not in info.languages
    assert custom_voice.effective_language("zh", NamedVoice("Eric")) == "sichuan_dialect"
    assert custom_voice.effective_language("zh", NamedVoice("serena")) == "chinese"


def test_settings_of_a_gpu_reach_the_engine() -> None:
    """Red when a profile's key is read by nobody: the default would hold. Only Base checkpoints have what to prime."""
    changes = {"enforce_eager": "true", "gpu_memory_utilization": "0.5", "max_num_seqs": "3"}
    named, base = (Qwen3TTSConfig.from_folder(folder) for folder in (CUSTOM_VOICE, BASE))
    options = native._options(load_profile("qwen3_tts_fused_single_gpu", changes), True, named)
    assert (options.enforce_eager, options.gpu_memory_utilization, options.max_num_seqs) == (True, 0.5, 3)
    late, early = (load_profile(f"qwen3_tts_fused_single_gpu{name}") for name in ("", "_low_latency"))
    assert not native._options(late, True, named).first_frame_at_once
    assert native._options(early, True, named).first_frame_at_once
    assert (native._options(late, True, named).context_frames, native._options(late, True, base).context_frames) == (
        None,
        72,
    )
    for other in ("0", "null"):
        none = load_profile("qwen3_tts_fused_single_gpu", {"ref_code_context_frames": other})
        assert native._options(none, True, base).context_frames is None

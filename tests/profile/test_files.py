"""What one file may say: each fault is reported with its file, its line, its key and the nearest valid name."""

from __future__ import annotations

import pytest

from tests.profile.conftest import Faults, Write
from ttsbench.core import TextLayout
from ttsbench.profile import load_profile

FUSED = "pipeline: qwen3_tts_fused\ntalker_stream_decode: true\n"


def test_a_minimal_profile_gets_every_default(write: Write) -> None:
    """Goes red when a default changes: results made without that key would mean something else."""
    resolved = load_profile(write(FUSED)).resolved()
    sampling = ("do_sample", "temperature", "top_k", "top_p", "repetition_penalty", "max_tokens", "min_tokens")
    assert resolved == {
        "name": "mine",
        "pipeline": "qwen3_tts_fused",
        "engine": "native",
        "device": "auto",
        "dtype": "auto",
        "codec_dtype": "auto",
        "num_threads": None,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 512,
        "max_model_len": 4096,
        "block_size": 16,
        "num_kv_blocks": None,
        "capacity_scheduler_policy": "guaranteed_no_evict",
        "gpu_memory_utilization": 0.9,
        "enforce_eager": False,
        "determinism": "seeded",
        "text_layout": None,
        "tokenizer_split": "qwen2",
        "ref_code_context_frames": 72,
        "ref_audio_artifact_cache_max_entries": 1024,
        "talker_stream_decode": True,
        "talker_stream_first_audio": False,
        "talker_first_audio": False,
        "codec_chunk_frames": 25,
        "codec_left_context_frames": None,
        "default_sampling_params": dict.fromkeys(sampling),
        "subtalker_sampling_params": dict.fromkeys(sampling[:4]),
    }


def test_an_unknown_key_is_refused_with_the_nearest_one(write: Write, faults: Faults) -> None:
    """Goes red when unknown keys are ignored, or the hint, the file or the line is lost."""
    assert faults(write(FUSED + "max_num_seq: 4\n")) == [
        "mine.yaml:3 max_num_seq: expected a known key, got the unknown key 'max_num_seq'; did you mean 'max_num_seqs'?"
    ]


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("temperature: 0.5", "'default_sampling_params.temperature'"),
        ("default_sampling_params:\n  max_num_seqs: 4", "'max_num_seqs'"),
        ("default_sampling_params:\n  temp: 4", "'default_sampling_params.temperature'"),
        ("subtalker_sampling_params:\n  temprature: 4", "'subtalker_sampling_params.temperature'"),
        ("subtalker_sampling_params:\n  base_config: x", "'base_config'"),
        ("MAX_NUM_SEQS: 4", "'max_num_seqs'"),
    ],
)
def test_the_nearest_key_may_stand_in_another_map(write: Write, faults: Faults, text: str, nearest: str) -> None:
    """Goes red when names are looked up in the map at hand alone, or a sibling loses to a stranger of the same name."""
    (fault,) = faults(write(FUSED + text + "\n"))
    assert fault.endswith(f"did you mean {nearest}?")


def test_a_key_like_no_other_gets_the_list(write: Write, faults: Faults) -> None:
    """Goes red when a hopeless name is answered with a far-fetched guess or with nothing."""
    (fault,) = faults(write(FUSED + "zzzz: 1\n"))
    assert "the keys here are pipeline, engine, device" in fault


@pytest.mark.parametrize(
    ("line", "expected", "got"),
    [
        ("max_num_seqs: true", "a whole number >= 1", "true"),
        ("max_num_seqs: 0", "a whole number >= 1", "0"),
        ("max_num_seqs: 8.0", "a whole number >= 1", "8.0"),
        ('max_num_seqs: "8"', "a whole number >= 1", "the text '8'"),
        ("max_num_seqs: null", "a whole number >= 1", "null"),
        ("max_num_seqs:", "a whole number >= 1", "null"),
        ("max_num_seqs: [8]", "a whole number >= 1", "a list"),
        ("max_num_seqs: {a: 8}", "a whole number >= 1", "a map"),
        (f"max_num_seqs: {'9' * 5000}", "a whole number >= 1", "inf"),
        ("max_num_batched_tokens: 0", "a whole number >= 1", "0"),
        ("max_model_len: -1", "a whole number >= 1", "-1"),
        ("block_size: 0", "a whole number >= 1", "0"),
        ("num_kv_blocks: 0", "a whole number >= 1, or null (enough for every slot at max_model_len)", "0"),
        ("num_threads: 0", "a whole number >= 1, or null (torch's own choice)", "0"),
        ("ref_code_context_frames: -1", "a whole number >= 0, or null (the whole reference)", "-1"),
        ("tokenizer_split: gpt2", "one of 'qwen2', 'mistral'", "the text 'gpt2'"),
        ("codec_chunk_frames: 0", "a whole number >= 1", "0"),
        ("codec_left_context_frames: -1", "a whole number >= 0, or null (stateful decoding, no window)", "-1"),
        ("talker_first_audio: 1", "true or false", "1"),
        ("talker_first_audio: yes", "true or false", "the text 'yes'"),
        (
            "capacity_scheduler_policy: static_batch",
            "one of 'guaranteed_no_evict', 'max_utilization'",
            "the text 'static_batch'",
        ),
        ("determinism: none", "one of 'seeded', 'batch_invariant'", "the text 'none'"),
        ("text_layout: 0", "one of 'streaming', 'non_streaming', or null (the checkpoint's default)", "0"),
        ("engine: vllm", "'native'", "the text 'vllm'"),
        ("default_sampling_params: 3", "a map of settings", "3"),
        ("default_sampling_params:", "a map of settings", "null"),
    ],
)
def test_a_wrong_value_is_refused(write: Write, faults: Faults, line: str, expected: str, got: str) -> None:
    """Goes red when a rule accepts a bool as a number, text as a number, null where it means nothing, or too little."""
    (fault,) = faults(write(f"{FUSED}{line}\n"))
    assert fault.startswith(f"mine.yaml:3 {line.split(':')[0]}: expected {expected}, got {got}")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("temperature: 0", "a number > 0.0001"),
        ("temperature: 1e-40", "a number > 0.0001"),
        ("temperature: -0.1", "a number > 0.0001"),
        ("temperature: true", "a number > 0.0001"),
        ("temperature: .inf", "a number > 0.0001"),
        ("temperature: .nan", "a number > 0.0001"),
        ("temperature: 1e999", "a number > 0.0001"),
        ("top_k: -1", "a whole number >= 0"),
        ("top_p: 0", "a number > 0 and <= 1"),
        ("top_p: 1.01", "a number > 0 and <= 1"),
        ("repetition_penalty: 0", "a number > 0 and <= 100"),
        ("repetition_penalty: 1e300", "a number > 0 and <= 100"),
        ("max_tokens: 0", "a whole number >= 1"),
        ("min_tokens: -1", "a whole number >= 0"),
        ("do_sample: 1", "true or false"),
    ],
)
def test_a_wrong_sampling_value_is_refused(write: Write, faults: Faults, line: str, expected: str) -> None:
    """Goes red when a sampling rule lets through what would fail, or mean something else, in the sampler."""
    (fault,) = faults(write(f"{FUSED}default_sampling_params:\n  {line}\n"))
    key = f"default_sampling_params.{line.split(':')[0]}"
    assert fault.startswith(f"mine.yaml:4 {key}: expected {expected}, or null (the checkpoint's default), got ")


def test_a_wrong_name_is_answered_with_the_nearest_one(write: Write, faults: Faults) -> None:
    """Goes red when valid values are not offered."""
    (fault,) = faults(write(FUSED + "dtype: bfloat15\n"))
    assert fault.endswith("got the text 'bfloat15'; did you mean 'bfloat16'?")


def test_zero_is_a_value_and_null_is_not_zero(write: Write) -> None:
    """Goes red when a value is tested by its truth: 0 would turn into the default, or null into 0."""
    text = "ref_code_context_frames: 0\ndefault_sampling_params: {top_k: 0, min_tokens: 0, top_p: null}\n"
    profile = load_profile(write(FUSED + text))
    assert profile.ref_code_context_frames == 0
    sampling = profile.default_sampling_params
    assert (sampling.top_k, sampling.min_tokens, sampling.top_p, sampling.max_tokens) == (0, 0, None, None)


def test_values_arrive_in_their_types(write: Write) -> None:
    """Goes red when a whole number stays an int where a float is meant, or a layout stays text; hashes would differ."""
    profile = load_profile(
        write(FUSED + "text_layout: streaming\ndefault_sampling_params: {temperature: 1, top_p: 1e-1}\n")
    )
    assert profile.text_layout is TextLayout.STREAMING
    assert type(profile.default_sampling_params.temperature) is float
    assert profile.default_sampling_params.top_p == 0.1


def test_numbers_are_decimal(write: Write) -> None:
    """Goes red when PyYAML's own resolver is used: it reads 010 as eight and 1:30 as ninety."""
    assert load_profile(write(FUSED + "max_num_seqs: 010\n")).max_num_seqs == 10


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            FUSED + "device: cpu\ndevice: cuda\n",
            "mine.yaml:4 device: expected each key once, got it again after mine.yaml:3",
        ),
        (
            FUSED + "default_sampling_params:\n  top_k: 1\n  top_k: 1\n",
            "mine.yaml:5 default_sampling_params.top_k: expected each key once, got it again after mine.yaml:4",
        ),
    ],
)
def test_a_duplicate_key_is_refused(write: Write, faults: Faults, text: str, fault: str) -> None:
    """Goes red when the file is loaded into a dict before it is checked: the last value would win in silence."""
    assert faults(write(text)) == [fault]


def test_the_pipeline_must_be_named(write: Write, faults: Faults) -> None:
    """Goes red when a profile without its one required key gets a pipeline that nobody asked for."""
    assert faults(write("device: cpu\n")) == [
        "mine.yaml pipeline: expected one of 'qwen3_tts_fused', 'qwen3_tts', got no such key; add pipeline:"
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "mine.yaml:1: expected a map of settings, got an empty file"),
        ("- pipeline\n", "mine.yaml:1: expected a map of settings, got a list"),
        ("fused\n", "mine.yaml:1: expected a map of settings, got the text 'fused'"),
        ("device: cpu\nmax_num_seqs: [8\n", "mine.yaml:3: expected valid YAML, got "),
        ("device: cpu\n---\ndevice: cuda\n", "mine.yaml:2: expected valid YAML, got "),
        ("device: \x07\n", "mine.yaml: expected valid YAML, got "),
        (FUSED + "? [a]\n: 1\n", "mine.yaml:3: expected a key name, got a list"),
    ],
)
def test_a_file_that_is_no_map_is_refused(write: Write, faults: Faults, text: str, fault: str) -> None:
    """Goes red when a file that cannot be read as a map passes as an empty one, or draws more faults than its own."""
    (found,) = faults(write(text))
    assert found.startswith(fault)


def test_a_file_that_is_not_utf8_is_refused(tmp_path, faults: Faults) -> None:
    """Goes red when undecodable bytes end in a traceback."""
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"device: \xff\n")
    assert faults(path) == ["profile: expected a readable profile file, got mine.yaml: bytes that are not UTF-8"]


def test_all_faults_come_at_once(write: Write, faults: Faults) -> None:
    """Goes red when reading stops at the first fault, in a file or on the command line."""
    text = "pipeline: qwen3_tts_fused\nmax_num_seq: 1\ndevice: cuba\nblock_size: 0\n"
    found = faults(write(text), {"dtype": "int8", "sed": "42"})
    assert [fault.split(": expected")[0] for fault in found] == [
        "mine.yaml:2 max_num_seq",
        "mine.yaml:3 device",
        "mine.yaml:4 block_size",
        "command line dtype",
        "command line sed",
        "default talker_stream_decode",
    ]

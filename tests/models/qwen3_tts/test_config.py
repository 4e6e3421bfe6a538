"""A published config is read whole: no class default stands in for a field, and every fault is told at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.models.qwen3_tts.released_configs import (
    CONTROL_IDS,
    DIALECTS,
    LANGUAGES,
    RELEASED,
    SPEAKERS,
    TEXT_IDS,
    released_config,
)
from ttsbench.core import DrawParams, InvalidInput, SamplingParams, TextLayout
from ttsbench.models.qwen3_tts.config import (
    ControlIds,
    GenerationDefaults,
    ModelType,
    Qwen3TTSConfig,
    TextIds,
    TransformerConfig,
    read_json,
)

TALKER = ("talker_config",)
PREDICTOR = ("talker_config", "code_predictor_config")
LAYER_KEYS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "rope_theta",
    "max_position_embeddings",
    "num_code_groups",
    "vocab_size",
)
REQUIRED = [
    *[((), key) for key in ("tts_model_type", "tts_model_size", "talker_config", *TEXT_IDS)],
    *[(TALKER, key) for key in (*LAYER_KEYS, "text_vocab_size", "text_hidden_size", "codec_language_id", *CONTROL_IDS)],
    *[(PREDICTOR, key) for key in LAYER_KEYS],
]


def custom_voice(section: tuple[str, ...] = (), **values: Any) -> dict[str, Any]:
    """The 1.7B CustomVoice config with `values` put into `section`."""
    data = released_config("1b7", "custom_voice")
    part(data, section).update(values)
    return data


def part(data: dict[str, Any], section: tuple[str, ...]) -> dict[str, Any]:
    for key in section:
        data = data[key]
    return data


def faults(data: dict[str, Any]) -> list[str]:
    """Where each fault is, without the file's name."""
    with pytest.raises(InvalidInput) as caught:
        Qwen3TTSConfig.from_dict(data)
    return [problem.where.removeprefix("config.json: ") for problem in caught.value.problems]


@pytest.mark.parametrize(("size", "hidden", "inner"), [("1b7", 2048, 6144), ("0b6", 1024, 3072)])
def test_released_geometry(size: str, hidden: int, inner: int) -> None:
    config = Qwen3TTSConfig.from_dict(released_config(size, "custom_voice"))
    assert config.talker == TransformerConfig(hidden, inner, 28, 16, 8, 128, 1e-6, 1e6, 32768)
    assert config.predictor == TransformerConfig(1024, 3072, 5, 16, 8, 128, 1e-6, 1e6, 65536)
    assert (config.talker_vocab_size, config.codebook_size, config.num_codebooks) == (3072, 2048, 16)
    assert (config.text_vocab_size, config.text_hidden_size) == (151936, 2048)
    assert config.text == TextIds(151644, 151645, 151671, 151672, 151673)
    assert config.control == ControlIds(
        pad=2148, bos=2149, eos=2150, think=2154, nothink=2155, think_bos=2156, think_eos=2157
    )


@pytest.mark.parametrize(("size", "task"), RELEASED)
def test_released_voices_and_languages(size: str, task: str) -> None:
    """Goes red when dialects are offered, or when an ordinary speaker's `false` is kept as a dialect."""
    config = Qwen3TTSConfig.from_dict(released_config(size, task))
    named = task == "custom_voice"
    assert config.model_type is ModelType(task)
    assert config.honours_instruct == (size == "1b7")
    assert set(config.offered_languages) == {"auto", *LANGUAGES}
    assert config.languages == LANGUAGES | (DIALECTS if named else {})
    assert config.speakers == (SPEAKERS if named else {})
    assert config.dialects == ({"eric": "sichuan_dialect", "dylan": "beijing_dialect"} if named else {})


def test_suppression_starts_right_after_the_codes() -> None:
    """Ids 2048 to 3071 are control ids; 2047 is a code that may be drawn. An off-by-one here bans a code for ever."""
    config = Qwen3TTSConfig.from_dict(released_config("1b7", "base"))
    assert config.first_control_id == config.codebook_size == 2048
    assert all(config.first_control_id <= value < config.talker_vocab_size for value in CONTROL_IDS.values())


def test_names_are_lower_cased() -> None:
    data = custom_voice(
        TALKER,
        spk_id={"Uncle_Fu": 3010, "ERIC": 2875},
        spk_is_dialect={"Uncle_Fu": False, "Eric": "sichuan_dialect"},
        codec_language_id={"English": 2050, "Sichuan_Dialect": 2062},
    )
    config = Qwen3TTSConfig.from_dict(data)
    assert config.speakers == {"uncle_fu": 3010, "eric": 2875}
    assert config.dialects == {"eric": "sichuan_dialect"}
    assert config.offered_languages == ("auto", "english")


@pytest.mark.parametrize(("section", "key"), REQUIRED)
@pytest.mark.parametrize("null", [False, True], ids=["absent", "null"])
def test_a_missing_field_is_an_error_that_names_it(section: tuple[str, ...], key: str, null: bool) -> None:
    """The published class defaults differ from every release: 20 layers, 32 groups, rope base 10,000, ids from 4,196.

    To break it: read any of these fields with a default.
    """
    data = released_config("1b7", "custom_voice")
    owner = part(data, section)
    if null:
        owner[key] = None
    else:
        del owner[key]
    assert ": ".join((*section, key)) in faults(data)


def test_all_missing_fields_are_told_at_once() -> None:
    data = released_config("0b6", "base")
    removed = [
        (TALKER, "num_hidden_layers"),
        (TALKER, "codec_think_bos_id"),
        (TALKER, "rope_theta"),
        (PREDICTOR, "num_code_groups"),
        (PREDICTOR, "hidden_size"),
        ((), "tts_pad_token_id"),
    ]
    for section, key in removed:
        del part(data, section)[key]
    assert sorted(faults(data)) == sorted(": ".join((*section, key)) for section, key in removed)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ((), "tts_model_type", "singing"),
        ((), "tts_model_type", ["base"]),
        ((), "tts_model_size", 1.7),
        ((), "tokenizer_type", "qwen3_tts_tokenizer_25hz"),
        ((), "talker_config", "talker.json"),
        (TALKER, "hidden_size", "2048"),
        (TALKER, "hidden_size", 2048.0),
        (TALKER, "hidden_size", True),
        (TALKER, "num_hidden_layers", 0),
        (TALKER, "num_key_value_heads", 3),
        (TALKER, "head_dim", 127),
        (TALKER, "rms_norm_eps", "1e-6"),
        (TALKER, "rope_theta", True),
        (TALKER, "rope_theta", -1),
        (TALKER, "rope_scaling", {"rope_type": "yarn", "factor": 4.0}),
        (TALKER, "hidden_act", "gelu"),
        (TALKER, "attention_bias", True),
        (TALKER, "use_sliding_window", True),
        (TALKER, "codec_language_id", ["english"]),
        (TALKER, "spk_id", 3066),
        (PREDICTOR, "num_code_groups", 32),
        (PREDICTOR, "vocab_size", -2048),
    ],
)
def test_an_unusable_value_is_one_error_that_names_it(section: tuple[str, ...], key: str, value: Any) -> None:
    """Types are exact (true is no int, 2048.0 no width), and what this code does not cover is refused, not ignored."""
    if key == "talker_config":
        assert key in faults(custom_voice(section, **{key: value}))
    else:
        assert faults(custom_voice(section, **{key: value})) == [": ".join((*section, key))]


@pytest.mark.parametrize(
    ("section", "values", "fault"),
    [
        (TALKER, {"codec_eos_token_id": 4198}, "codec control ids: eos"),
        (TALKER, {"codec_pad_id": 2047}, "codec control ids: pad"),
        (TALKER, {"codec_language_id": {"english": "2050"}}, "codec_language_id: english"),
        (TALKER, {"spk_id": {"serena": 3072}}, "spk_id: serena"),
        (TALKER, {"spk_id": {"serena": True}}, "spk_id: serena"),
        (TALKER, {"spk_is_dialect": {"eric": "cantonese_dialect"}}, "spk_is_dialect: eric"),
        (TALKER, {"spk_is_dialect": {"eric": True}}, "spk_is_dialect: eric"),
        ((), {"tts_bos_token_id": 151936}, "text token ids: tts_bos"),
        ((), {"im_end_token_id": -1}, "text token ids: im_end"),
    ],
)
def test_an_id_outside_its_table_is_an_error(section: tuple[str, ...], values: dict[str, Any], fault: str) -> None:
    """The class defaults' control ids (4,196 and up) point behind a table of 3,072 rows, a wrong read on a device."""
    expected = [fault]
    if "codec_language_id" in values:  # the dialect speakers then name languages that are gone
        expected += ["spk_is_dialect: eric", "spk_is_dialect: dylan"]
    assert sorted(faults(custom_voice(section, **values))) == sorted(expected)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "No such file"),
        (b"{", "Expecting property name"),
        (b"", "Expecting value"),
        (b'{"a": "\xff"}', "codec can't decode"),
        (b"[1, 2]", "list"),
    ],
)
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    for read in (lambda: read_json(path), lambda: Qwen3TTSConfig.from_folder(tmp_path)):
        with pytest.raises(InvalidInput) as caught:
            read()
        assert caught.value.problems[0].where == str(path)
        assert complaint in str(caught.value)


def generation(folder: Path, model_type: ModelType = ModelType.CUSTOM_VOICE, **values: Any) -> GenerationDefaults:
    (folder / "generation_config.json").write_text(json.dumps(values))
    return GenerationDefaults.from_folder(folder, model_type)


FALLBACK = SamplingParams(DrawParams(True, 0.9, 50, 1.0), DrawParams(True, 0.9, 50, 1.0), 1.05, min_frames=2)


def test_published_fallbacks_where_there_is_no_file(tmp_path: Path) -> None:
    assert GenerationDefaults.from_folder(tmp_path, ModelType.BASE) == GenerationDefaults(
        FALLBACK, 2048, TextLayout.STREAMING
    )


def test_the_file_wins_over_the_fallbacks_field_by_field(tmp_path: Path) -> None:
    """Goes red when talker and code predictor read each other's fields, or when a given field drags another along."""
    found = generation(tmp_path, temperature=1, top_k=0, subtalker_top_p=0.5, subtalker_dosample=False)
    assert found.sampling == SamplingParams(DrawParams(True, 1.0, 0, 1.0), DrawParams(False, 0.9, 50, 0.5), 1.05)
    found = generation(tmp_path, do_sample=False, top_p=0.5, subtalker_temperature=0.3, subtalker_top_k=7)
    assert found.sampling == SamplingParams(DrawParams(False, 0.9, 50, 0.5), DrawParams(True, 0.3, 7, 1.0), 1.05)
    assert generation(tmp_path, repetition_penalty=1.0).sampling.repetition_penalty == 1.0
    assert generation(tmp_path, max_new_tokens=8192).max_frames == 8192
    assert generation(tmp_path, temperature=None, max_new_tokens=None) == generation(tmp_path)


@pytest.mark.parametrize("model_type", ModelType)
def test_text_layout_follows_the_task_unless_the_file_says(tmp_path: Path, model_type: ModelType) -> None:
    expected = TextLayout.STREAMING if model_type is ModelType.BASE else TextLayout.NON_STREAMING
    assert generation(tmp_path, model_type).text_layout is expected
    assert generation(tmp_path, model_type, non_streaming_mode=False).text_layout is TextLayout.STREAMING
    assert generation(tmp_path, model_type, non_streaming_mode=True).text_layout is TextLayout.NON_STREAMING


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("do_sample", "false"),
        ("do_sample", 0),
        ("temperature", "0.9"),
        ("temperature", True),
        ("top_k", 50.5),
        ("subtalker_top_k", True),
        ("max_new_tokens", 0),
        ("max_new_tokens", "2048"),
        ("non_streaming_mode", 1),
    ],
)
def test_a_mistyped_default_is_an_error_that_names_it(tmp_path: Path, key: str, value: Any) -> None:
    """`bool("false")` is true and `int(50.5)` is 50: converting instead of checking turns this red."""
    with pytest.raises(InvalidInput) as caught:
        generation(tmp_path, **{key: value})
    assert [problem.where.rpartition(": ")[2] for problem in caught.value.problems] == [key]


@pytest.mark.parametrize(
    "values", [{"temperature": 0}, {"subtalker_top_p": 1.5}, {"top_k": -1}, {"repetition_penalty": 0.0}]
)
def test_a_default_out_of_range_is_invalid_input(tmp_path: Path, values: dict[str, Any]) -> None:
    """Not a bare ValueError: the command line must be able to say which file is wrong."""
    with pytest.raises(InvalidInput, match=r"generation_config\.json"):
        generation(tmp_path, **values)

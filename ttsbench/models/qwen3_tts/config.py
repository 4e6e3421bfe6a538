"""What a published Qwen3-TTS folder says about its talker, read once and frozen.

Every field that shapes a tensor or names a token must stand in `config.json`. The class defaults of the published code
differ from every released checkpoint (20 layers, 32 code groups, rope base 10,000, control ids above 4,196), so a missing
field is an error here and never a default.

Shape words used in this package: B rows, T text tokens, F codec frames, Q codebooks, D width, H heads, N packed positions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ttsbench.core import DrawParams, InvalidInput, Problem, SamplingParams, TextLayout

NUM_CONTROL_IDS = 1024
"""The last 1,024 rows of the talker vocabulary are control ids and are never drawn, except end of speech."""

FALLBACK_MAX_FRAMES = 2048
"""Length limit of the published wrapper where `generation_config.json` gives none."""


class ModelType(StrEnum):
    """What a checkpoint was trained to do; it serves no other task."""

    BASE = "base"
    CUSTOM_VOICE = "custom_voice"
    VOICE_DESIGN = "voice_design"


@dataclass(frozen=True)
class TransformerConfig:
    """Geometry of one pre-norm decoder stack (talker or code predictor)."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_positions: int


@dataclass(frozen=True)
class ControlIds:
    """Rows of the talker's codec embedding that are not codes."""

    eos: int
    pad: int
    bos: int
    think: int
    nothink: int
    think_bos: int
    think_eos: int


@dataclass(frozen=True)
class TextIds:
    """Special ids of the text vocabulary."""

    im_start: int
    im_end: int
    tts_pad: int
    tts_bos: int
    tts_eos: int


@dataclass(frozen=True)
class Qwen3TTSConfig:
    """One checkpoint's talker, code predictor, tokens, voices and languages."""

    model_type: ModelType
    model_size: str
    talker: TransformerConfig
    predictor: TransformerConfig
    talker_vocab_size: int
    codebook_size: int
    """Rows of each code-predictor head and embedding; codes lie below it."""
    num_codebooks: int
    text_vocab_size: int
    text_hidden_size: int
    control: ControlIds
    text: TextIds
    languages: Mapping[str, int]
    speakers: Mapping[str, int]
    dialects: Mapping[str, str]
    """Speaker -> language name that replaces Chinese and auto, only for dialect speakers."""

    @property
    def first_control_id(self) -> int:
        return self.talker_vocab_size - NUM_CONTROL_IDS

    @property
    def honours_instruct(self) -> bool:
        """The published wrapper drops instructions for the 0.6B size."""
        return self.model_size != "0b6"

    @property
    def offered_languages(self) -> tuple[str, ...]:
        """Names a user may ask for: dialects belong to speakers and are not offered."""
        return ("auto", *(name for name in self.languages if "dialect" not in name))

    @classmethod
    def from_folder(cls, folder: Path) -> Qwen3TTSConfig:
        """Read `config.json`. Raises InvalidInput listing every missing or unusable field."""
        path = folder / "config.json"
        return cls.from_dict(read_json(path), str(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "config.json") -> Qwen3TTSConfig:
        fields = Fields(data, where)
        talker = fields.section("talker_config")
        predictor = talker.section("code_predictor_config")
        model_type = fields.choice("tts_model_type", [t.value for t in ModelType])
        values: dict[str, Any] = {
            "model_size": fields.get("tts_model_size", str),
            "talker": _transformer(talker),
            "predictor": _transformer(predictor),
            "talker_vocab_size": talker.get("vocab_size", int),
            "codebook_size": predictor.get("vocab_size", int),
            "num_codebooks": talker.get("num_code_groups", int),
            "text_vocab_size": talker.get("text_vocab_size", int),
            "text_hidden_size": talker.get("text_hidden_size", int),
            "control": ControlIds(
                **{n: talker.get(f"codec_{n}_id", int) for n in ("pad", "bos", "think", "nothink", "think_bos", "think_eos")},
                eos=talker.get("codec_eos_token_id", int),
            ),
            "text": TextIds(
                **{n: fields.get(f"{n}_token_id", int) for n in ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos")}
            ),
            "languages": _lower_keys(talker.get("codec_language_id", dict)),
            "speakers": _lower_keys(talker.optional("spk_id", dict) or {}),
            "dialects": {
                k: v for k, v in _lower_keys(talker.optional("spk_is_dialect", dict) or {}).items() if v is not False
            },
        }
        if predictor.get("num_code_groups", int) != values["num_codebooks"]:
            predictor.fail("num_code_groups", f"{values['num_codebooks']} as in talker_config", predictor.data["num_code_groups"])
        fields.raise_problems()
        return cls(model_type=ModelType(model_type), **values)


@dataclass(frozen=True)
class GenerationDefaults:
    """Sampling, length and text layout that travel with a checkpoint (`generation_config.json`)."""

    sampling: SamplingParams
    max_frames: int
    text_layout: TextLayout

    @classmethod
    def from_folder(cls, folder: Path, model_type: ModelType) -> GenerationDefaults:
        """Published fallbacks fill what the file does not say; `non_streaming_mode` is the wrapper's argument of that name."""
        path = folder / "generation_config.json"
        data = read_json(path) if path.exists() else {}

        def draw(prefix: str, sample_key: str) -> DrawParams:
            return DrawParams(
                do_sample=bool(data.get(sample_key, True)),
                temperature=float(data.get(f"{prefix}temperature", 0.9)),
                top_k=int(data.get(f"{prefix}top_k", 50)),
                top_p=float(data.get(f"{prefix}top_p", 1.0)),
            )

        non_streaming = bool(data.get("non_streaming_mode", model_type is not ModelType.BASE))
        return cls(
            sampling=SamplingParams(
                talker=draw("", "do_sample"),
                code_predictor=draw("subtalker_", "subtalker_dosample"),
                repetition_penalty=float(data.get("repetition_penalty", 1.05)),
            ),
            max_frames=int(data.get("max_new_tokens", FALLBACK_MAX_FRAMES)),
            text_layout=TextLayout.NON_STREAMING if non_streaming else TextLayout.STREAMING,
        )


class Fields:
    """Typed reads from a JSON object that collect every fault before anything is raised."""

    def __init__(self, data: Mapping[str, Any], where: str, problems: list[Problem] | None = None) -> None:
        self.data = data
        self.where = where
        self.problems: list[Problem] = [] if problems is None else problems

    def section(self, key: str) -> Fields:
        return Fields(self.get(key, dict), f"{self.where}: {key}", self.problems)

    def get(self, key: str, kind: type) -> Any:
        if key not in self.data:
            self.fail(key, kind.__name__, "nothing", "the published code's class default is not the released value")
            return kind()
        return self.optional(key, kind)

    def optional(self, key: str, kind: type) -> Any:
        value = self.data.get(key)
        if value is None:
            return None
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fail(key, kind.__name__, value)
            return kind()
        return value

    def choice(self, key: str, names: list[str]) -> str:
        value = self.get(key, str)
        if value not in names:
            self.fail(key, " or ".join(names), value)
        return str(value)

    def expect(self, key: str, value: Any) -> None:
        """The one value this implementation covers; an absent key means that value, since it shapes no tensor."""
        if self.data.get(key, value) != value:
            self.fail(key, repr(value), self.data[key])

    def fail(self, key: str, expected: str, got: Any, hint: str = "") -> None:
        self.problems.append(Problem(f"{self.where}: {key}", expected, got if got == "nothing" else repr(got), hint))

    def raise_problems(self) -> None:
        if self.problems:
            raise InvalidInput(self.problems)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or raise InvalidInput saying what is wrong with the file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(Problem(str(path), "a readable JSON object", str(error))) from error
    if not isinstance(data, dict):
        raise InvalidInput(Problem(str(path), "a JSON object", type(data).__name__))
    return data


def _transformer(fields: Fields) -> TransformerConfig:
    for key, value in (("attention_bias", False), ("use_sliding_window", False), ("hidden_act", "silu")):
        fields.expect(key, value)
    return TransformerConfig(
        hidden_size=fields.get("hidden_size", int),
        intermediate_size=fields.get("intermediate_size", int),
        num_layers=fields.get("num_hidden_layers", int),
        num_heads=fields.get("num_attention_heads", int),
        num_kv_heads=fields.get("num_key_value_heads", int),
        head_dim=fields.get("head_dim", int),
        rms_norm_eps=fields.get("rms_norm_eps", float),
        rope_theta=fields.get("rope_theta", float),
        max_positions=fields.get("max_position_embeddings", int),
    )


def _lower_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name.lower(): value for name, value in table.items()}

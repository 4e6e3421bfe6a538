"""What a published Qwen3-TTS folder says about its talker, read once and frozen.

Every field that shapes a tensor or names a token must stand in `config.json`. The class defaults of the published code
differ from every released checkpoint (20 layers, 32 code groups, rope base 10,000, control ids above 4,196), so a
missing field is an error here and never a default.

Shape words used in this package: B rows, T text tokens, F codec frames, Q codebooks, D width, H heads, N packed
positions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
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
        """Build from a parsed `config.json`. Raises InvalidInput listing every missing or unusable field."""
        fields = Fields(data, where)
        talker = fields.section("talker_config")
        predictor = talker.section("code_predictor_config")
        fields.expect("tokenizer_type", "qwen3_tts_tokenizer_12hz")
        model_type = fields.choice("tts_model_type", [t.value for t in ModelType])
        values: dict[str, Any] = {
            "model_size": fields.get("tts_model_size", str),
            "talker": _transformer(talker),
            "predictor": _transformer(predictor),
            "talker_vocab_size": talker.positive("vocab_size", int),
            "codebook_size": predictor.positive("vocab_size", int),
            "num_codebooks": talker.positive("num_code_groups", int),
            "text_vocab_size": talker.positive("text_vocab_size", int),
            "text_hidden_size": talker.positive("text_hidden_size", int),
            "control": _control_ids(talker),
            "text": TextIds(**{n: fields.get(f"{n}_token_id", int) for n in _names(TextIds)}),
            "languages": _lower_keys(talker.get("codec_language_id", dict)),
            "speakers": _lower_keys(talker.default("spk_id", {})),
            "dialects": {k: v for k, v in _lower_keys(talker.default("spk_is_dialect", {})).items() if v is not False},
        }
        predictor_books = predictor.positive("num_code_groups", int)
        fields.raise_problems()  # what follows compares fields, so all of them must be there
        config = cls(model_type=ModelType(model_type), **values)
        if predictor_books != config.num_codebooks:
            predictor.fail("num_code_groups", f"{config.num_codebooks} as in talker_config", predictor_books)
        fields.problems.extend(_id_problems(config, where))
        fields.raise_problems()
        return config


@dataclass(frozen=True)
class GenerationDefaults:
    """Sampling, length and text layout that travel with a checkpoint (`generation_config.json`)."""

    sampling: SamplingParams
    max_frames: int
    text_layout: TextLayout

    @classmethod
    def from_folder(cls, folder: Path, model_type: ModelType) -> GenerationDefaults:
        """Published fallbacks fill what the file leaves out; `non_streaming_mode` is the wrapper's argument.

        Raises InvalidInput for values of the wrong type or out of range.
        """
        path = folder / "generation_config.json"
        fields = Fields(read_json(path) if path.exists() else {}, str(path))
        talker = _draw_values(fields, "", "do_sample")
        predictor = _draw_values(fields, "subtalker_", "subtalker_dosample")
        penalty = fields.default("repetition_penalty", 1.05)
        max_frames = fields.default("max_new_tokens", FALLBACK_MAX_FRAMES)
        non_streaming = fields.default("non_streaming_mode", model_type is not ModelType.BASE)
        if max_frames < 1:
            fields.fail("max_new_tokens", "a positive int", max_frames)
        fields.raise_problems()
        try:
            sampling = SamplingParams(DrawParams(**talker), DrawParams(**predictor), penalty)
        except ValueError as error:
            raise InvalidInput(Problem(str(path), "sampling values in range", str(error))) from error
        return cls(sampling, max_frames, TextLayout.NON_STREAMING if non_streaming else TextLayout.STREAMING)


def _draw_values(fields: Fields, prefix: str, sample_key: str) -> dict[str, Any]:
    return {
        "do_sample": fields.default(sample_key, True),
        "temperature": fields.default(f"{prefix}temperature", 0.9),
        "top_k": fields.default(f"{prefix}top_k", 50),
        "top_p": fields.default(f"{prefix}top_p", 1.0),
    }


class Fields:
    """Typed reads from a JSON object that collect every fault before anything is raised."""

    def __init__(self, data: Mapping[str, Any], where: str, problems: list[Problem] | None = None) -> None:
        self.data = data
        self.where = where
        self.problems: list[Problem] = [] if problems is None else problems

    def section(self, key: str) -> Fields:
        """The object under `key`; its faults join these."""
        return Fields(self.get(key, dict), f"{self.where}: {key}", self.problems)

    def get(self, key: str, kind: type) -> Any:
        """A required value. Absent, null and mistyped are faults, and an empty `kind` stands in for them."""
        if self.data.get(key) is None:
            self._absent(key, kind.__name__)
            return kind()
        return self.optional(key, kind)

    def positive(self, key: str, kind: type) -> Any:
        """A required number above zero."""
        faults = len(self.problems)
        value = self.get(key, kind)
        if len(self.problems) == faults and not value > 0:
            self.fail(key, f"a positive {kind.__name__}", value)
        return value

    def optional(self, key: str, kind: type) -> Any:
        """A value of `kind`, or None where it is absent or null."""
        value = self.data.get(key)
        if value is None:
            return None
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fail(key, kind.__name__, value)
            return kind()
        return value

    def default(self, key: str, fallback: Any) -> Any:
        """A value of the type of `fallback`, which stands in where it is absent, null or (a fault) mistyped."""
        faults = len(self.problems)
        value = self.optional(key, type(fallback))
        return fallback if value is None or len(self.problems) > faults else value

    def choice(self, key: str, names: list[str]) -> str:
        """A required string out of `names`."""
        value = self.data.get(key)
        if value is None:
            self._absent(key, " or ".join(names))
        elif value not in names:
            self.fail(key, " or ".join(names), value)
        return str(value)

    def expect(self, key: str, value: Any) -> None:
        """The one value this implementation covers; an absent key means that value, since it shapes no tensor."""
        if self.data.get(key, value) != value:
            self.fail(key, repr(value), self.data[key])

    def fail(self, key: str, expected: str, got: Any, hint: str = "") -> None:
        """Note a fault of `key`."""
        self.problems.append(Problem(f"{self.where}: {key}", expected, repr(got), hint))

    def _absent(self, key: str, expected: str) -> None:
        got = "null" if key in self.data else "nothing"
        hint = "the published code's class default is not the released value"
        self.problems.append(Problem(f"{self.where}: {key}", expected, got, hint))

    def raise_problems(self) -> None:
        """Raise InvalidInput if any fault was noted."""
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
    scaling = fields.default("rope_scaling", {})
    if scaling.get("rope_type", scaling.get("type", "default")) != "default":
        fields.fail("rope_scaling", "null or type 'default'", scaling)
    config = TransformerConfig(
        hidden_size=fields.positive("hidden_size", int),
        intermediate_size=fields.positive("intermediate_size", int),
        num_layers=fields.positive("num_hidden_layers", int),
        num_heads=fields.positive("num_attention_heads", int),
        num_kv_heads=fields.positive("num_key_value_heads", int),
        head_dim=fields.positive("head_dim", int),
        rms_norm_eps=fields.positive("rms_norm_eps", float),
        rope_theta=fields.positive("rope_theta", float),
        max_positions=fields.positive("max_position_embeddings", int),
    )
    heads, kv_heads = config.num_heads, config.num_kv_heads
    if kv_heads > 0 and heads % kv_heads:
        fields.fail("num_key_value_heads", f"a divisor of num_attention_heads ({heads})", kv_heads)
    if config.head_dim % 2:
        fields.fail("head_dim", "an even int (rotary pairs)", config.head_dim)
    return config


def _control_ids(talker: Fields) -> ControlIds:
    names = (name for name in _names(ControlIds) if name != "eos")
    return ControlIds(
        **{name: talker.get(f"codec_{name}_id", int) for name in names}, eos=talker.get("codec_eos_token_id", int)
    )


def _id_problems(config: Qwen3TTSConfig, where: str) -> Iterator[Problem]:
    """Ids outside their table, as the class defaults are (control ids from 4,196), and dialects without an id."""
    control = range(max(config.first_control_id, 0), config.talker_vocab_size)
    tables: tuple[tuple[str, Mapping[str, Any], range], ...] = (
        ("codec control ids", asdict(config.control), control),
        ("codec_language_id", config.languages, control),
        ("spk_id", config.speakers, control),
        ("text token ids", asdict(config.text), range(config.text_vocab_size)),
    )
    for table, ids, allowed in tables:
        for name, value in ids.items():
            if type(value) is not int or value not in allowed:
                expected = f"an int in [{allowed.start}, {allowed.stop})"
                yield Problem(f"{where}: {table}: {name}", expected, repr(value))
    for speaker, dialect in config.dialects.items():
        if dialect not in list(config.languages):
            yield Problem(f"{where}: spk_is_dialect: {speaker}", "false or a name in codec_language_id", repr(dialect))


def _names(kind: type[ControlIds] | type[TextIds]) -> list[str]:
    return [field.name for field in dataclass_fields(kind)]


def _lower_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name.lower(): value for name, value in table.items()}

"""The profile itself: frozen, flat and complete. Each field carries the rule that its YAML value must pass.

Names follow vLLM-Omni's deploy files where the meaning is the same. A null sampling field leaves the checkpoint's
`generation_config.json` in charge. There is no key here that nothing reads or checks.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, asdict, dataclass, field, fields
from enum import Enum
from typing import Any, Literal, get_args

from ttsbench.core import TextLayout
from ttsbench.core.request import MAX_REPETITION_PENALTY, MIN_TEMPERATURE
from ttsbench.profile.rules import Rule, flag, number, one_of, or_null, whole

Pipeline = Literal["qwen3_tts_fused", "qwen3_tts"]
EngineKind = Literal["native"]
Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
CapacityPolicy = Literal["guaranteed_no_evict", "max_utilization"]
Determinism = Literal["seeded", "batch_invariant"]
TokenizerSplit = Literal["qwen2", "mistral"]

_CHECKPOINT = "the checkpoint's default"


def setting(rule: Rule, default: Any) -> Any:
    """A dataclass field that a profile may set."""
    return field(default=default, metadata={"rule": rule})


def _sampling(rule: Rule) -> Any:
    return setting(or_null(rule, _CHECKPOINT), None)


@dataclass(frozen=True, kw_only=True)
class TalkerSampling:
    """How code 0 of a frame is drawn. None leaves the checkpoint's value."""

    do_sample: bool | None = _sampling(flag())
    temperature: float | None = _sampling(number(above=MIN_TEMPERATURE))
    top_k: int | None = _sampling(whole(at_least=0))
    """0 keeps every code."""
    top_p: float | None = _sampling(number(above=0, at_most=1))
    repetition_penalty: float | None = _sampling(number(above=0, at_most=MAX_REPETITION_PENALTY))
    max_tokens: int | None = _sampling(whole(at_least=1))
    """Most codec frames of one utterance."""
    min_tokens: int | None = _sampling(whole(at_least=0))
    """Codec frames before which speech may not end."""


@dataclass(frozen=True, kw_only=True)
class CodePredictorSampling:
    """How the other codes of a frame are drawn. None leaves the checkpoint's value."""

    do_sample: bool | None = _sampling(flag())
    temperature: float | None = _sampling(number(above=MIN_TEMPERATURE))
    top_k: int | None = _sampling(whole(at_least=0))
    """0 keeps every code."""
    top_p: float | None = _sampling(number(above=0, at_most=1))


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One deployment. Made by `load_profile`, which checks it; the fields below are the YAML keys, but for `name`."""

    name: str
    """The file's name without its ending."""
    pipeline: Pipeline = field(metadata={"rule": one_of(*get_args(Pipeline))})
    """Fused: the talker owns the codec decoder. `qwen3_tts`: talker and codec are two stages."""
    engine: EngineKind = setting(one_of(*get_args(EngineKind)), "native")
    device: Device = setting(one_of(*get_args(Device)), "auto")
    dtype: Dtype = setting(one_of(*get_args(Dtype)), "auto")
    """Of talker and code predictor."""
    codec_dtype: Dtype = setting(one_of(*get_args(Dtype)), "auto")
    num_threads: int | None = setting(or_null(whole(at_least=1), "torch's own choice"), None)
    """CPU threads within one operation."""

    max_num_seqs: int = setting(whole(at_least=1), 8)
    """Slots: requests that run at once."""
    max_num_batched_tokens: int = setting(whole(at_least=1), 512)
    """Tokens of one step."""
    max_model_len: int = setting(whole(at_least=1), 4096)
    """Prompt and frames of one request."""
    block_size: int = setting(whole(at_least=1), 16)
    """Tokens of one KV block."""
    num_kv_blocks: int | None = setting(or_null(whole(at_least=1), "enough for every slot at max_model_len"), None)
    capacity_scheduler_policy: CapacityPolicy = setting(one_of(*get_args(CapacityPolicy)), "guaranteed_no_evict")
    """As in TensorRT-LLM: a request starts when all KV blocks that it may need are free; or it takes them as it grows,
    and the newest are preempted where none are left.
    """
    gpu_memory_utilization: float = setting(number(above=0, at_most=1), 0.9)
    """Share of a GPU's memory that weights, state, graphs and KV blocks may take together."""
    enforce_eager: bool = setting(flag(), False)
    """On a GPU: launch every kernel from Python instead of replaying captured graphs."""
    determinism: Determinism = setting(one_of(*get_args(Determinism)), "seeded")

    text_layout: TextLayout | None = setting(
        or_null(one_of(*map(str, TextLayout), convert=lambda value: TextLayout(str(value))), _CHECKPOINT), None
    )
    tokenizer_split: TokenizerSplit = setting(one_of(*get_args(TokenizerSplit)), "qwen2")
    """How text is cut before byte-pair encoding; "mistral" is what transformers does with `fix_mistral_regex`."""
    ref_code_context_frames: int | None = setting(or_null(whole(at_least=0), "the whole reference"), 72)
    """Reference frames that prime the codec for a cloned voice; 0 primes with none."""
    ref_audio_artifact_cache_max_entries: int = setting(whole(at_least=0), 1024)
    """Encoded reference clips kept, at most 60 kB each; 0 encodes the clip of every request anew."""
    talker_stream_decode: bool = setting(flag(), False)
    """The talker's own step decodes each frame; this is what fused means."""
    talker_stream_first_audio: bool = setting(flag(), False)
    """Emit the first frame at once, before a chunk is full. Fused only."""
    talker_first_audio: bool = setting(flag(), False)
    """A separate first-frame decoder beside the talker. Two-stage only."""
    codec_chunk_frames: int = setting(whole(at_least=1), 25)
    """Frames of an emitted chunk."""
    codec_left_context_frames: int | None = setting(or_null(whole(at_least=0), "stateful decoding, no window"), None)
    """Frames decoded again in front of each chunk. Two-stage only: the fused codec keeps its state."""

    default_sampling_params: TalkerSampling = field(default_factory=TalkerSampling)
    subtalker_sampling_params: CodePredictorSampling = field(default_factory=CodePredictorSampling)

    def resolved(self) -> dict[str, Any]:
        """Every setting as plain JSON values, defaults included, with the name; what a run stores."""
        return asdict(self, dict_factory=lambda items: {key: _plain(value) for key, value in items})

    @property
    def sha256(self) -> str:
        """Of the settings alone, so two files that say the same have one hash, whatever they are called."""
        settings = {key: value for key, value in self.resolved().items() if key != "name"}
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


@dataclass(frozen=True)
class Key:
    """One settable key. Where `required`, a profile must speak and `default` means nothing."""

    rule: Rule
    required: bool
    default: object


def _keys(cls: type, prefix: str = "") -> dict[str, Key]:
    """The keys of one map; its nested maps have keys of their own."""
    ruled = (entry for entry in fields(cls) if "rule" in entry.metadata)
    return {prefix + f.name: Key(f.metadata["rule"], f.default is MISSING, f.default) for f in ruled}


SECTIONS: dict[str, type[TalkerSampling | CodePredictorSampling]] = {
    "default_sampling_params": TalkerSampling,
    "subtalker_sampling_params": CodePredictorSampling,
}
"""The keys that hold a map, and what the map becomes."""
KEYS: dict[str, Key] = _keys(Profile)
"""Every settable key, dotted: `max_num_seqs`, `default_sampling_params.temperature`."""
for _section, _cls in SECTIONS.items():
    KEYS |= _keys(_cls, f"{_section}.")

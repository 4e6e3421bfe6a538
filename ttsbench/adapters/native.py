"""The engine of this package behind the common interface: profile and checkpoint in, audio chunks out.

Everything the engine itself may not import happens here: reading and resampling reference clips, judging a text,
picking device and dtype from a profile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from ttsbench.adapters.references import References
from ttsbench.core import (
    AudioChunk,
    DrawParams,
    EngineInfo,
    InvalidInput,
    NamedVoice,
    Problem,
    ReferenceVoice,
    RowError,
    SamplingParams,
    SpeechRequest,
    Voice,
    VoiceDescription,
)
from ttsbench.corpus import text_problem
from ttsbench.engine.fused import INVARIANT_PREFILL_TILE, FusedEngine, FusedOptions
from ttsbench.models.qwen3_tts.checkpoint import Checkpoint
from ttsbench.models.qwen3_tts.config import ModelType, Qwen3TTSConfig
from ttsbench.models.qwen3_tts.prompt import Conditioning, Prompt
from ttsbench.models.qwen3_tts.voices import effective_language, language_problem, speaker_key, voice_problem
from ttsbench.models.source import resolve_checkpoint
from ttsbench.profile import Profile

log = logging.getLogger(__name__)

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class NativeEngine:
    """An `Engine` over one checkpoint. `stream` False holds each utterance back until it is whole."""

    def __init__(self, model: str, profile: Profile, stream: bool = True) -> None:
        """Load and check. Raises InvalidInput for a profile that cannot run here or a checkpoint that does not fit."""
        if problems := profile_problems(profile):
            raise InvalidInput(problems)
        if profile.num_threads is not None:
            torch.set_num_threads(profile.num_threads)
        self.profile = profile
        self.device = _device(profile)
        self.checkpoint = _load(model, profile, self.device)
        self.sampling = _sampling(profile, self.checkpoint.defaults.sampling)
        self.prompts = self.checkpoint.prompts
        self.references = References(self.checkpoint, self.device, profile.ref_audio_artifact_cache_max_entries)
        self._model = model
        decoder = self.checkpoint.codec.decoder
        self._engine = FusedEngine(
            self.checkpoint.config,
            self.checkpoint.model.talker,
            decoder,
            self.checkpoint.codec.config.sample_rate_hz,
            self._prompt,
            _options(profile, stream, self.checkpoint.config),
            None if profile.determinism == "batch_invariant" else self._look_ahead,
        )

    def info(self) -> EngineInfo:
        config, defaults = self.checkpoint.config, self.checkpoint.defaults
        options = self._engine.options
        max_tokens = self.profile.default_sampling_params.max_tokens
        return EngineInfo(
            name="native",
            model=self._model,
            mode="fused",
            sample_rate_hz=self.checkpoint.codec.config.sample_rate_hz,
            hop_samples=self.checkpoint.codec.decoder.hop,
            num_codebooks=config.num_codebooks,
            max_num_seqs=options.max_num_seqs,
            max_model_len=options.max_model_len,
            determinism=self.profile.determinism,
            device=str(self.device),
            dtype=str(self.checkpoint.model.talker.codec_head.weight.dtype).removeprefix("torch."),
            codec_dtype=str(self.checkpoint.codec.decoder.dtype).removeprefix("torch."),
            reports_frames=True,
            speakers=tuple(config.speakers),
            languages=config.offered_languages,
            default_sampling=self.sampling,
            default_text_layout=self.profile.text_layout or defaults.text_layout,
            default_max_frames=defaults.max_frames if max_tokens is None else max_tokens,
        )

    def effective_language(self, language: str, voice: Voice) -> str:
        """The language a prompt is built for, aliases and dialects resolved."""
        return effective_language(self.checkpoint.config, language, voice)

    def submit(self, request: SpeechRequest) -> None:
        self._engine.submit(request)

    def chunks(self, stopping: Callable[[], bool] = lambda: False) -> Iterator[AudioChunk]:
        return self._engine.chunks(stopping)

    def cancel(self, request_id: str) -> bool:
        return self._engine.cancel(request_id)

    def stats(self) -> dict[str, Any]:
        """How the engine's steps were run so far; reference clips found in the cache, encoded, and forgotten."""
        return {**self._engine.stats(), "references": self.references.counts()}

    def close(self) -> None:
        """Nothing outlives the object. What the reference cache was worth is logged, where there were clips."""
        counts, (entries, size) = self.references.counts(), self.references.cache.held
        if counts["hits"] or counts["misses"]:
            told = ", ".join(f"{count} {name}" for name, count in counts.items())
            log.info("reference clips: %s; %d held (%.1f MB)", told, entries, size / 1e6)

    @torch.inference_mode()
    def _prompt(self, request: SpeechRequest) -> Prompt:
        """Talker rows of a request. Raises RowError for content that cannot be spoken.

        Callers check voice and language before any work (`served_problems`); a name that slips through is charged to
        its request, for there is no voice to fall back on.
        """
        if problem := text_problem(request.text):
            raise problem
        if unserved := served_problems(self.checkpoint.config, request.voice, request.language):
            raise RowError("not_served", "; ".join(map(str, unserved)))
        language = effective_language(self.checkpoint.config, request.language, request.voice)
        layout = request.text_layout or self.profile.text_layout or self.checkpoint.defaults.text_layout
        prompt = self.prompts.build(request.text, language, layout, self._conditioning(request.voice))
        return replace(prompt, context_codes=last_frames(prompt.context_codes, self.profile.ref_code_context_frames))

    @torch.inference_mode()
    def _look_ahead(self, requests: list[SpeechRequest]) -> None:
        """Encode what several prompts will need at once. Not at `batch_invariant`: sums of a pass follow its size."""
        self.references.prepare([one.voice for one in requests if isinstance(one.voice, ReferenceVoice)])

    def _conditioning(self, voice: Voice) -> Conditioning:
        match voice:
            case NamedVoice(speaker, instruct):
                return Conditioning(speaker=self.prompts.named_speaker(speaker_key(speaker)), instruct=instruct)
            case VoiceDescription(instruct):
                return Conditioning(instruct=instruct)
            case ReferenceVoice(_, transcript):
                problem = None if transcript is None else text_problem(transcript)
                if problem:
                    raise RowError("reference_text_missing", f"in-context cloning needs what the clip says: {problem}")
                return self.references.conditioning(voice)


def last_frames(codes: torch.Tensor | None, count: int | None) -> torch.Tensor | None:
    """The last `count` frames of `codes` [R, Q]: None keeps all, 0 none (a slice from -0 would keep all)."""
    if codes is None or count is None:
        return codes
    return None if count == 0 else codes[-count:]


def served_problems(config: Qwen3TTSConfig, voice: Voice, language: str) -> list[Problem]:
    """What about this voice and language a checkpoint cannot serve."""
    return [p for p in (voice_problem(config, voice), language_problem(config, language)) if p is not None]


def profile_problems(profile: Profile) -> list[Problem]:
    """Why this engine cannot run `profile` on this machine."""
    where, problems = f"profile {profile.name}", []
    if profile.pipeline != "qwen3_tts_fused":
        hint = "use a fused profile such as qwen3_tts_fused_cpu"
        problems.append(Problem(f"{where}: pipeline", "qwen3_tts_fused", repr(profile.pipeline), hint))
    if profile.device == "cuda" and not torch.cuda.is_available():
        hint = "set device: cpu, or use the profile qwen3_tts_fused_cpu"
        problems.append(Problem(f"{where}: device", "a CUDA device", "none that torch can see", hint))
    # A GPU may cut a prompt anywhere, at any level of determinism.
    alone = profile.determinism == "batch_invariant" and _device(profile).type == "cpu"
    tile = INVARIANT_PREFILL_TILE if alone else 1
    least = profile.max_num_seqs - 1 + tile
    if profile.max_num_batched_tokens < least:
        expected = f"at least {least}: max_num_seqs {profile.max_num_seqs} - 1 decoding rows and {tile} of a prompt"
        hint = f"raise it, or lower max_num_seqs; determinism is {profile.determinism}"
        got = str(profile.max_num_batched_tokens)
        problems.append(Problem(f"{where}: max_num_batched_tokens", expected, got, hint))
    return problems


def _device(profile: Profile) -> torch.device:
    if profile.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(profile.device)


def _load(model: str, profile: Profile, device: torch.device) -> Checkpoint:
    folder = resolve_checkpoint(model)
    dtype, codec_dtype = _dtype(profile.dtype, device), _dtype(profile.codec_dtype, device)
    return Checkpoint.load(folder, device, dtype, codec_dtype, profile.tokenizer_split)


def _dtype(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 on a GPU, as published, and float32 on a CPU."""
    return _DTYPES[("float32" if device.type == "cpu" else "bfloat16") if name == "auto" else name]


def _options(profile: Profile, stream: bool, config: Qwen3TTSConfig) -> FusedOptions:
    clones = config.model_type is ModelType.BASE
    return FusedOptions(
        max_num_seqs=profile.max_num_seqs,
        max_num_batched_tokens=profile.max_num_batched_tokens,
        max_model_len=min(profile.max_model_len, config.talker.max_positions),
        block_size=profile.block_size,
        num_kv_blocks=profile.num_kv_blocks,
        reserve_blocks=profile.capacity_scheduler_policy == "guaranteed_no_evict",
        chunk_frames=profile.codec_chunk_frames if stream else None,
        first_frame_at_once=stream and profile.talker_stream_first_audio,
        batch_invariant=profile.determinism == "batch_invariant",
        enforce_eager=profile.enforce_eager,
        context_frames=profile.ref_code_context_frames or None if clones else None,
        gpu_memory_utilization=profile.gpu_memory_utilization,
    )


def _sampling(profile: Profile, checkpoint: SamplingParams) -> SamplingParams:
    """The checkpoint's sampling with what the profile sets laid over it; None means not set, 0 is a value."""
    talker, predictor = profile.default_sampling_params, profile.subtalker_sampling_params

    def draw(base: DrawParams, over: object) -> DrawParams:
        names = ("do_sample", "temperature", "top_k", "top_p")
        return replace(base, **{n: v for n in names if (v := getattr(over, n)) is not None})

    penalty, min_frames = talker.repetition_penalty, talker.min_tokens
    return SamplingParams(
        talker=draw(checkpoint.talker, talker),
        code_predictor=draw(checkpoint.code_predictor, predictor),
        repetition_penalty=checkpoint.repetition_penalty if penalty is None else penalty,
        min_frames=checkpoint.min_frames if min_frames is None else min_frames,
    )

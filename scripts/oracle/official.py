"""The official `qwen-tts` package as an oracle: import it, load a folder, and see what its wrapper hands to its talker.

Runs in an environment of its own (see README.md), never in ttsbench's. Only this module knows how the package is
patched: its 25 Hz tokenizer, which nothing here uses, imports torchaudio, and that does not load beside a CPU torch.
"""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers  # noqa: F401  (must come before the stub: it looks for torchaudio while it is imported)


def _stub_torchaudio() -> None:
    names = ("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi")
    modules = {name: types.ModuleType(name) for name in names}
    modules["torchaudio"].compliance = modules["torchaudio.compliance"]  # type: ignore[attr-defined]
    modules["torchaudio.compliance"].kaldi = modules["torchaudio.compliance.kaldi"]  # type: ignore[attr-defined]
    modules["torchaudio.compliance.kaldi"].fbank = None  # type: ignore[attr-defined]
    sys.modules.update(modules)


_stub_torchaudio()
torch.set_num_threads(1)

from qwen_tts import Qwen3TTSModel  # noqa: E402
from qwen_tts.core import Qwen3TTSTokenizerV2Config, Qwen3TTSTokenizerV2Model  # noqa: E402
from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration  # noqa: E402
from qwen_tts.core.models.modeling_qwen3_tts import mel_spectrogram  # noqa: E402

__all__ = [
    "GREEDY",
    "Call",
    "Qwen3TTSConfig",
    "Qwen3TTSForConditionalGeneration",
    "Qwen3TTSTokenizerV2Config",
    "Qwen3TTSTokenizerV2Model",
    "load",
    "mel_spectrogram",
    "watch",
]

GREEDY: dict[str, Any] = {"do_sample": False, "subtalker_dosample": False}


@dataclass
class Call:
    """What one wrapper call passed on. Row lists are per prompt; R rows, D talker width, Q codebooks."""

    talker: dict[str, Any] = field(default_factory=dict)
    """Given to `talker.generate`: inputs_embeds [B, R, D], trailing_text_hidden [B, T, D], tts_pad_embed [1, 1, D]."""
    result: Any = None
    """What `talker.generate` returned, with raw logits."""
    codes: list[torch.Tensor] = field(default_factory=list)
    """Frames the package keeps, [F, Q] each."""
    wavs: list[Any] = field(default_factory=list)


def load(folder: Path, dtype: torch.dtype = torch.float32) -> Qwen3TTSModel:
    """Load a checkpoint folder as the package's users do, on the CPU. Its codec ignores the attention asked for."""
    return Qwen3TTSModel.from_pretrained(str(folder), device_map="cpu", dtype=dtype, attn_implementation="eager")


def watch(wrapper: Qwen3TTSModel, method: str, **arguments: Any) -> Call:
    """Call one of the wrapper's public methods and return everything that passed between its layers."""
    call, model, talker = Call(), wrapper.model, wrapper.model.talker
    inner_generate, inner_talker = model.generate, talker.generate

    def talker_generate(**kwargs: Any) -> Any:
        call.talker = kwargs
        call.result = inner_talker(**kwargs, output_logits=True)
        return call.result

    def generate(**kwargs: Any) -> Any:
        call.codes, hidden = inner_generate(**kwargs)
        return call.codes, hidden

    model.generate, talker.generate = generate, talker_generate
    try:
        call.wavs, _ = getattr(wrapper, method)(**arguments)
    finally:
        del model.generate, talker.generate
    return call

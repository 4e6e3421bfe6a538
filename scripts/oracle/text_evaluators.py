"""The public evaluators' own code, called for its text rule: what does it hand to jiwer, and what does it answer?

The packages are installed without their dependencies. What their modules import beyond the text rule (torch, vllm, the
recognisers) is mocked, and the mocked recogniser "hears" the hypothesis. The rule that no package publishes is written
from its description, with zhon: the official script, and SGLang-Omni's Chinese.
"""

from __future__ import annotations

import importlib.util
import string
import sys
import types
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import jiwer
import zhconv
import zhon.hanzi

Texts = tuple[str, str]
"""Reference and hypothesis, normalised."""
Answer = tuple[Texts, float | None]
"""And the WER that the evaluator makes of them; None where it has no function for that, or fails."""

MOCKED = (
    *("torch", "torch.nn", "torch.nn.functional", "torchaudio", "tqdm", "funasr", "faster_whisper"),
    *("f5_tts", "f5_tts.eval", "f5_tts.eval.ecapa_tdnn", "f5_tts.model", "f5_tts.model.modules", "f5_tts.model.utils"),
    *("vllm", "vllm.benchmarks", "vllm.benchmarks.datasets"),
    *("vllm_omni", "vllm_omni.benchmarks", "vllm_omni.benchmarks.data_modules", "vllm_omni.metrics"),
    *("vllm_omni.benchmarks.data_modules.seed_tts_dataset", "vllm_omni.metrics.definitions"),
)


def watched(wer: Callable[[], float]) -> Answer:
    """What a call hands to jiwer, under either of the names that jiwer's versions have, and what it answers."""
    names = [name for name in ("process_words", "compute_measures") if hasattr(jiwer, name)]
    kept = {name: getattr(jiwer, name) for name in names}
    handed: list[Texts] = []

    def watch(name: str) -> Callable[[str, str], Any]:
        def measure(reference: str, hypothesis: str) -> Any:
            handed.append((reference, hypothesis))
            return kept[name](reference, hypothesis)

        return measure

    try:
        for name in names:
            setattr(jiwer, name, watch(name))
        answer = wer()
    except ValueError:  # how jiwer 3 takes an empty reference
        answer = None
    finally:
        for name in names:
            setattr(jiwer, name, kept[name])
    return handed[0], answer


def official(reference: str, hypothesis: str, language: str) -> Answer:
    """seed-tts-eval's rule, written from its description."""
    if language == "zh":
        hypothesis = zhconv.convert(hypothesis, "zh-cn")
    return (_squeezed(reference, language), _squeezed(hypothesis, language)), None


def _squeezed(text: str, language: str) -> str:
    text = _stripped(text).replace("  ", " ")
    return " ".join(text) if language == "zh" else text.lower()


def _stripped(text: str) -> str:
    for mark in zhon.hanzi.punctuation + string.punctuation:
        if mark != "'":
            text = text.replace(mark, "")
    return text


def sglang_omni(reference: str, hypothesis: str, language: str) -> Answer:
    """English: openai-whisper's normaliser. Chinese: the rule written from its description."""
    if language == "en":
        normaliser = _whisper().EnglishTextNormalizer()
        return (normaliser(reference), normaliser(hypothesis)), None
    return (_spaceless(reference), _spaceless(zhconv.convert(hypothesis, "zh-cn"))), None


def _spaceless(text: str) -> str:
    return " ".join(_stripped(text).replace(" ", "").replace("\u3000", "").strip())


def vllm_omni(reference: str, hypothesis: str, language: str) -> Answer:
    module = _module("vllm-omni", "vllm_omni/benchmarks/data_modules/seed_tts_eval.py")
    if language == "zh":
        hypothesis = zhconv.convert(hypothesis, "zh-cn")  # as `_transcribe_zh_wav_path` does before
    return watched(lambda: module.process_one_official(hypothesis, reference, language)[0])


def f5_tts(reference: str, hypothesis: str, language: str) -> Answer:
    module = _module("f5-tts", "f5_tts/eval/utils_eval.py")
    module.tqdm = lambda rows: rows
    recogniser = MagicMock()
    recogniser.generate.return_value = [{"text": hypothesis}]
    recogniser.transcribe.return_value = ([types.SimpleNamespace(text=hypothesis)], None)
    module.load_asr_model = lambda *_, **__: recogniser
    return watched(lambda: module.run_asr_wer((0, language, [("a.wav", "b.wav", reference)], ""))[0]["wer"])


EVALUATORS: dict[str, Callable[[str, str, str], Answer]] = {
    "seedtts": official,
    "vllm-omni": vllm_omni,
    "f5-tts": f5_tts,
    "sglang-omni": sglang_omni,
}

_LOADED: dict[str, Any] = {}


def _module(package: str, path: str) -> Any:
    """A module of an installed package, without running the package's own `__init__`."""
    if path not in _LOADED:
        sys.modules.update({name: MagicMock() for name in MOCKED if name not in sys.modules})
        spec = importlib.util.spec_from_file_location(Path(path).stem, distribution(package).locate_file(path))
        assert spec is not None
        assert spec.loader is not None
        _LOADED[path] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(_LOADED[path])
    return _LOADED[path]


def _whisper() -> Any:
    """`whisper.normalizers` without the `__init__` of whisper, which imports torch."""
    if "whisper" not in sys.modules:
        sys.modules["whisper"] = types.ModuleType("whisper")
        sys.modules["whisper"].__path__ = [str(distribution("openai-whisper").locate_file("whisper"))]
    return importlib.import_module("whisper.normalizers")

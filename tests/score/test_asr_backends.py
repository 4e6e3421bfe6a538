"""Every recogniser: what reaches it, what is pinned, and what is said when it is not there.

The big models cannot be here. Faster-whisper is heard for real with the embedded tiny.en; the others are told what to
answer, by stand-ins of their packages that hold them to the calls the real ones take.
"""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import importlib.metadata
import json
import logging
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.score.runs import tone
from ttsbench.core import InvalidInput
from ttsbench.records import canonical_sha256, sha256_of
from ttsbench.score.asr import AsrSpec, Clip
from ttsbench.score.asr.endpoint import EndpointSpec
from ttsbench.score.asr.faster_whisper import GREEDY_ENGLISH, FasterWhisperSpec
from ttsbench.score.asr.faster_whisper_hub import FasterWhisperHubSpec
from ttsbench.score.asr.openai_whisper import OpenAIWhisperSpec
from ttsbench.score.asr.paraformer import PARAFORMER_ZH, ParaformerSpec
from ttsbench.score.asr.recorded import RecordedSpec
from ttsbench.score.asr.transformers_whisper import TransformersWhisperSpec, TransformersWhisperTranscriber
from ttsbench.score.asr.weights import find_model
from ttsbench.score.audio import decode_wav, for_asr
from ttsbench.score.policy import LongAudio
from ttsbench.score.protocol import MINI_EN_1
from ttsbench.score.transcripts import TranscriptCache

ROOT = Path(__file__).parents[2]
SECOND = 16_000
SILENCE = np.zeros(30 * SECOND, np.float32)


def clip(*parts: np.ndarray) -> Clip:
    return Clip(np.concatenate(parts), "0" * 64)


def wide_tone(seconds: int) -> np.ndarray:
    return tone(seconds * SECOND)


@pytest.fixture
def no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a single model; returns the folder the user may put some in."""
    for variable in ("HOME", "XDG_CACHE_HOME", "HF_HOME", "MODELSCOPE_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / "nothing"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "nothing"))
    monkeypatch.setenv("TTSBENCH_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every package has a version."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"{name} 1.0")


ABSENT: list[tuple[AsrSpec, str]] = [
    (TransformersWhisperSpec("openai/whisper-large-v3", "abc", LongAudio.WHOLE), "hf download openai/whisper-large-v3"),
    (FasterWhisperHubSpec("Systran/faster-whisper-large-v3", None, "int8"), "hf download Systran/faster-whisper"),
    (OpenAIWhisperSpec("large-v3"), "whisper.load_model"),
    (ParaformerSpec(), "modelscope download --model iic/speech_seaco"),
    (RecordedSpec(Path("nowhere.jsonl"), "somebody"), "no such file"),
]


@pytest.mark.parametrize(("spec", "hint"), ABSENT, ids=lambda value: type(value).__name__)
@pytest.mark.usefixtures("no_models", "installed")
def test_absent_weights_are_an_error_that_says_how_to_get_them(spec: AsrSpec, hint: str) -> None:
    """Red when something is downloaded or stands in, before a scoring (found) or in it (open)."""
    for use in (spec.found, spec.open):
        with pytest.raises(InvalidInput, match=hint):
            use()


@pytest.mark.parametrize(
    ("spec", "package"),
    [
        (TransformersWhisperSpec("a/b", None, LongAudio.WHOLE), "transformers"),
        (FasterWhisperHubSpec("a/b", None, "int8"), "faster-whisper"),
        (OpenAIWhisperSpec("large-v3"), "openai-whisper"),
        (ParaformerSpec(), "funasr"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_absent_package_is_an_error_that_says_what_to_install(
    spec: AsrSpec, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the error is Python's own, or comes after rows have been heard."""

    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    for use in (spec.versions, spec.open):
        with pytest.raises(InvalidInput, match=f"pip install {package}"):
            use()


def test_the_users_folder_of_models_comes_before_the_hubs_cache(no_models: Path) -> None:
    """Red when the folder is not looked at, or a file of the model is left out of what was found."""
    folder = no_models / "owner" / "model"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_bytes(b"{}")
    (folder / "README.md").write_bytes(b"read me")
    found = TransformersWhisperSpec("owner/model", None, LongAudio.WHOLE).found()
    assert found["files"] == {"config.json": sha256_of(b"{}"), "model.safetensors": sha256_of(b"weights")}
    assert TransformersWhisperSpec(str(folder), None, LongAudio.WHOLE).found() == found
    (folder / "model.safetensors").unlink()
    with pytest.raises(InvalidInput, match="download the model again"):
        TransformersWhisperSpec("owner/model", None, LongAudio.WHOLE).found()


def test_the_hub_is_asked_for_what_is_here_alone(no_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when a scoring fetches gigabytes, or takes another revision than the pinned one."""
    asked: list[dict[str, Any]] = []

    def snapshot_download(model: str, **options: Any) -> str:
        asked.append({"model": model, **options})
        return str(no_models)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert find_model("owner/model", "abc") == no_models
    assert asked == [{"model": "owner/model", "revision": "abc", "local_files_only": True}]


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        (
            TransformersWhisperSpec("a/b", None, LongAudio.WHOLE),
            {"revision": "c", "precision": "float16", "long_audio": LongAudio.FIRST_30_S, "generate": {}},
        ),
        (
            FasterWhisperHubSpec("a/b", None, "int8"),
            {"revision": "c", "compute_type": "float32", "beam_size": 5, "batch_size": 8, "options": {}},
        ),
        (OpenAIWhisperSpec("large-v3"), {"model": "tiny", "options": {}}),
        (ParaformerSpec(), {"model": "other", "revision": "v1", "options": {}}),
        (
            EndpointSpec("http://a", "m"),
            {"url": "http://b", "model": "n", "fields": {}, "timeout_s": 1.0, "attempts": 1, "workers": 2},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_decides_the_words_is_pinned(spec: Any, changes: dict[str, Any]) -> None:
    """Red when two settings of a recogniser have one hash."""
    specs = [spec, *(dataclasses.replace(spec, **{name: value}) for name, value in changes.items())]
    assert len({canonical_sha256(each.pinned()) for each in specs}) == len(specs)


class Features(dict[str, Any]):
    """What a processor returns."""

    def to(self, device: str) -> Features:
        return self

    def __getattr__(self, name: str) -> Any:
        return self[name]


class StandInWhisper:
    """Model and processor of Transformers in one: says how many seconds it was given, and how."""

    def __init__(self) -> None:
        import torch

        self.device, self.dtype, self.calls = "cpu", torch.float32, list[dict[str, Any]]()

    def __call__(self, samples: np.ndarray, **options: Any) -> Features:
        import torch

        assert options.pop("sampling_rate") == SECOND
        assert options.pop("return_tensors") == "pt"
        assert options.pop("return_attention_mask")
        self.calls.append(options)
        return Features(input_features=torch.full((1, 1, 1), len(samples) / SECOND), attention_mask=torch.ones(1, 1))

    def generate(self, features: Any, attention_mask: Any, **options: Any) -> list[str]:
        self.calls.append(options)
        return [f" {features.item():.0f} seconds"]

    def batch_decode(self, codes: list[str], skip_special_tokens: bool) -> list[str]:
        assert skip_special_tokens
        return codes


def test_transformers_hears_the_first_30_s_or_all_of_it() -> None:
    """Red when a runaway is cut where the protocol says whole, or heard where it says 30 s.

    The long form of the feature extractor is for long clips alone, and takes timestamps.
    """
    runaway = clip(wide_tone(164))
    for long_audio, expected in ((LongAudio.FIRST_30_S, "30 seconds"), (LongAudio.WHOLE, "164 seconds")):
        stand_in = StandInWhisper()
        transcriber = TransformersWhisperTranscriber(stand_in, stand_in, long_audio, {"language": "en"})
        assert transcriber.transcribe(runaway) == expected
        assert transcriber.transcribe(clip(wide_tone(4))) == "4 seconds"
        assert stand_in.calls[2:] == [{}, {"language": "en"}]
        if long_audio is LongAudio.WHOLE:
            assert stand_in.calls[0] == {"truncation": False, "padding": "longest"}
            assert stand_in.calls[1] == {"language": "en", "return_timestamps": True}


class StandInOpenAI:
    def transcribe(self, samples: np.ndarray, **options: Any) -> dict[str, Any]:
        assert options["temperature"] == 0.0
        return {"text": f" {len(samples) / SECOND:.0f} seconds"}


def test_openai_whisper_is_given_the_audible_stretches(
    no_models: Path, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when silence is sent along, a stretch is cut at 30 s, or another checkpoint is loaded than the one hashed."""
    no_models.mkdir()
    (no_models / "large-v3.pt").write_bytes(b"weights")
    loaded: list[str] = []

    def load_model(path: str, device: str) -> StandInOpenAI:
        loaded.append(path)
        return StandInOpenAI()

    module = types.ModuleType("whisper")
    module.load_model = load_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "whisper", module)
    spec = OpenAIWhisperSpec("large-v3")
    transcriber = spec.open()
    assert spec.found()["files"] == {"checkpoint": sha256_of(b"weights")}
    assert loaded == [str(no_models / "large-v3.pt")]
    assert transcriber.transcribe(clip(wide_tone(60), SILENCE, wide_tone(4))) == "60 seconds 4 seconds"
    assert transcriber.transcribe(clip(SILENCE)) == ""


def test_paraformer_is_loaded_from_its_folder_without_extras(
    no_models: Path, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when FunASR is left to fetch a model of its own, or silence is given to it."""
    folder = no_models / PARAFORMER_ZH
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"weights")
    (folder / "seg_dict").write_bytes(b"words")
    (folder / ".msc").write_bytes(b"when it was downloaded")

    class AutoModel:
        def __init__(self, model: str, **options: bool) -> None:
            assert (model, options) == (str(folder), {"disable_update": True, "disable_pbar": True})

        def generate(self, input: np.ndarray, **options: Any) -> list[dict[str, str]]:
            assert options == {"batch_size_s": 300}
            return [{"key": "k", "text": f" 听 {len(input) / SECOND:.0f} "}]

    module = types.ModuleType("funasr")
    module.AutoModel = AutoModel  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "funasr", module)
    transcriber = ParaformerSpec().open()
    assert transcriber.transcribe(clip(wide_tone(40))) == "听 40"
    assert transcriber.transcribe(clip(SILENCE)) == ""
    assert ParaformerSpec().found() == {"files": {"model.pt": sha256_of(b"weights"), "seg_dict": sha256_of(b"words")}}


@pytest.fixture
def server() -> Iterator[Any]:
    """A transcription server that answers with what stands in `answers`, (status, body) one after the other."""

    class Handler(http.server.BaseHTTPRequestHandler):
        answers: ClassVar[list[tuple[int, bytes]]] = []
        bodies: ClassVar[list[bytes]] = []
        tokens: ClassVar[list[str | None]] = []

        def do_POST(self) -> None:
            self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.tokens.append(self.headers["Authorization"])
            status, body = self.answers.pop(0)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        made.handler = Handler  # type: ignore[attr-defined]
        yield made
        made.shutdown()
        thread.join()


def endpoint(server: Any, **changes: Any) -> EndpointSpec:
    fields = {"url": f"http://127.0.0.1:{server.server_port}/v1/audio/transcriptions", "model": "whisper-1"}
    return EndpointSpec(**fields | changes)


def test_an_endpoint_gets_the_audio_as_a_form(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the WAV, the model's name, a field or the token does not arrive whole."""
    monkeypatch.setenv("ASR_TOKEN", "secret")
    server.handler.answers.append((200, json.dumps({"text": " One, two. "}).encode()))
    samples = wide_tone(1)
    spec = endpoint(server, key_variable="ASR_TOKEN")
    assert spec.open().transcribe(clip(samples)) == "One, two."
    body = server.handler.bodies.pop()
    for name, value in (("model", "whisper-1"), ("language", "en"), ("temperature", "0"), ("response_format", "json")):
        assert f'name="{name}"\r\n\r\n{value}\r\n'.encode() in body
    wav = body.split(b"Content-Type: audio/wav\r\n\r\n")[1].rsplit(b"\r\n--", 1)[0]
    audio = decode_wav(wav)
    assert audio.sample_rate_hz == SECOND
    np.testing.assert_allclose(audio.samples, samples, rtol=0, atol=2**-15)  # one step of 16 bits
    assert server.handler.tokens.pop() == "Bearer secret"
    assert "secret" not in json.dumps(spec.pinned())


@pytest.mark.parametrize("answer", [(500, b"out of memory"), (200, b"<html>"), (200, b'{"error": "no"}'), (200, b"[]")])
def test_a_failed_call_is_said_aloud_and_tried_again(
    server: Any, answer: tuple[int, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """Red when a retry is silent, or an odd answer becomes an empty transcript."""
    server.handler.answers.extend([answer, (200, b'{"text": "one"}')])
    with caplog.at_level(logging.WARNING, "ttsbench"):
        assert endpoint(server).open().transcribe(clip(wide_tone(1))) == "one"
    assert "attempt 1 of 2 failed" in caplog.text


def test_the_last_failure_is_the_rows(server: Any) -> None:
    """Red when calls are repeated beyond what is pinned, or the failure is turned into a text."""
    server.handler.answers.extend([(500, b"")] * 3)
    with pytest.raises(OSError, match="500"):
        endpoint(server).open().transcribe(clip(wide_tone(1)))
    assert len(server.handler.answers) == 1


def test_an_endpoint_hears_no_silence(server: Any) -> None:
    """Red when a server is asked what silence says."""
    assert endpoint(server).open().transcribe(clip(SILENCE)) == ""
    assert server.handler.bodies == []


def test_a_token_that_is_not_set_is_said_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the first row finds out."""
    monkeypatch.delenv("ASR_TOKEN", raising=False)
    with pytest.raises(InvalidInput, match="ASR_TOKEN"):
        EndpointSpec("http://a", "m", key_variable="ASR_TOKEN").open()
    with pytest.raises(InvalidInput, match="an http or https address"):
        EndpointSpec("file:///etc/passwd", "m").open()


def test_recorded_transcripts_are_those_of_the_cache(tmp_path: Path) -> None:
    """Red when an unknown file gets the empty transcript, or a damaged file is read."""
    known = TranscriptCache(tmp_path).of("e" * 64)
    known.add("1" * 64, "one two")
    spec = RecordedSpec(tmp_path / f"{'e' * 64}.jsonl", "tiny.en")
    transcriber = spec.open()
    assert transcriber.transcribe(Clip(wide_tone(1), "1" * 64)) == "one two"
    with pytest.raises(LookupError, match="2" * 64):
        transcriber.transcribe(Clip(wide_tone(1), "2" * 64))
    assert spec.found() == {"files": {"transcripts": hashlib.sha256(spec.path.read_bytes()).hexdigest()}}
    spec.path.write_bytes(spec.path.read_bytes().replace(b"one two", b"one too"))
    with pytest.raises(InvalidInput, match=r"line 1: .*damaged"):
        spec.open()


def embedded() -> Path:
    asr = MINI_EN_1.asr
    assert isinstance(asr, FasterWhisperSpec)
    return asr._find()


@pytest.mark.parametrize("batch_size", [None, 4])
def test_faster_whisper_from_a_folder_hears_a_bundled_clip(batch_size: int | None) -> None:
    """The real package, once each way: 16 clear words, of which tiny.en may miss one. Red when audio or clips are off.

    40 s of silence and the clip again come after: red when they give other words, or silence gives any.
    """
    corpus = ROOT / "ttsbench" / "assets" / "mini_en" / "en"
    _, text, wav, _ = (corpus / "meta.lst").read_text(encoding="utf-8").splitlines()[0].split("|")[:4]
    samples = for_asr(decode_wav((corpus / wav).read_bytes()))
    options = {name: value for name, value in GREEDY_ENGLISH.items() if name not in ("beam_size", "vad_filter")}
    spec = FasterWhisperHubSpec(str(embedded()), None, "int8", batch_size=batch_size, options=options, device="cpu")
    transcriber = spec.open()
    rest = np.zeros(-len(samples) % (30 * SECOND), np.float32)
    once, twice = transcriber.transcribe(clip(samples)), transcriber.transcribe(clip(samples, rest, SILENCE, samples))
    words = MINI_EN_1.normalise(text).split()
    heard = MINI_EN_1.normalise(once).split()
    assert sum(word in words for word in heard) >= len(words) - 1
    assert len(heard) <= len(words) + 1
    assert MINI_EN_1.normalise(twice).split() == heard * 2


def test_a_precision_the_device_lacks_is_an_error() -> None:
    """Red when another precision stands in for the pinned one, or CTranslate2's own error gets through."""
    spec = FasterWhisperHubSpec(str(embedded()), None, "int8_float16", device="cpu")
    with pytest.raises(InvalidInput, match="a device that computes in int8_float16"):
        spec.open()

"""Reference clips are known by their content: what is encoded, what is found again, and what is forgotten."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.adapters.test_native import REQUEST, WORDS, clip, pcm, profile
from tests.cli.harness import BASE
from tests.engine.toys import no_waiting
from ttsbench.adapters import references
from ttsbench.adapters.native import NativeEngine
from ttsbench.adapters.references import Clip, ReferenceCache, ReferenceKey, References, passes
from ttsbench.core import AudioChunk, ReferenceVoice, RowError
from ttsbench.models.qwen3_tts.codec_encoder import CodecEncoder
from ttsbench.models.qwen3_tts.prompt import Conditioning
from ttsbench.models.qwen3_tts.speaker_encoder import SpeakerEncoder


def engine(**overrides: object) -> NativeEngine:
    return NativeEngine(str(BASE), profile(**overrides))


def counts(engine: NativeEngine) -> tuple[int, int, int]:
    """Hits, misses and evictions, as users see them."""
    told = engine.stats()["references"]
    return told["hits"], told["misses"], told["evictions"]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each encoder has run."""
    ran: Counter[str] = Counter()

    def count(name: str, owner: type, method: str) -> None:
        inner = getattr(owner, method)

        def counted(*given: Any, **named: Any) -> Any:
            ran[name] += 1
            return inner(*given, **named)

        monkeypatch.setattr(owner, method, counted)

    count("codec", CodecEncoder, "encode_all")
    count("speaker", SpeakerEncoder, "forward")
    return ran


def test_a_changed_clip_under_an_old_name_is_a_new_voice(tmp_path: Path) -> None:
    """Two passes over one row, whose clip is overwritten in between, and back. Goes red when references are cached by
    path (`ReferenceKey(str(voice.audio), ...)`): the second pass would speak with the first clip's voice.
    """
    path, one = tmp_path / "x.wav", engine()
    voice = ReferenceVoice(path, WORDS)
    path.write_bytes(clip("af_bella"))
    first = pcm(one, voice)
    path.write_bytes(clip("bm_george"))
    second = pcm(one, voice)
    assert first != second
    assert second == pcm(engine(), voice)
    path.write_bytes(clip("af_bella"))
    assert pcm(one, voice) == first
    assert counts(one) == (1, 2, 0)


def test_two_labels_of_one_content_are_one_entry(tmp_path: Path, encoded: Counter[str]) -> None:
    """Goes red when the path is part of the key: the copy would be encoded again."""
    one = engine()
    for name in ("alice", "bob"):
        (tmp_path / f"{name}.wav").write_bytes(clip("af_bella"))
    alice, bob = (pcm(one, ReferenceVoice(tmp_path / f"{name}.wav", WORDS)) for name in ("alice", "bob"))
    assert alice == bob
    assert encoded == {"codec": 1, "speaker": 1}
    assert counts(one) == (1, 1, 0)


def test_two_contents_of_one_label_do_not_mix(tmp_path: Path) -> None:
    """In one batch each request gets the clip that its own path holds. Goes red when a file's name alone is the key."""
    one, voices = engine(), {}
    for name in ("af_bella", "bm_george"):
        path = tmp_path / name / "x.wav"
        path.parent.mkdir()
        path.write_bytes(clip(name))
        voices[name] = ReferenceVoice(path, WORDS)
    for name, voice in voices.items():
        one.submit(replace(REQUEST, id=name, voice=voice, sampling=one.info().default_sampling))
    heard = dict.fromkeys(voices, b"")
    for chunk in one.chunks():
        heard[chunk.request_id] += chunk.pcm.tobytes()
    assert heard["af_bella"] != heard["bm_george"]
    assert counts(one) == (0, 2, 0)


def test_words_belong_to_the_key_and_no_words_need_no_codes(tmp_path: Path, encoded: Counter[str]) -> None:
    """Goes red when the transcript is left out of the key (the second request would have the first one's words), or
    when a voice without one is put through the codec encoder.
    """
    one = engine()
    (tmp_path / "x.wav").write_bytes(clip("af_bella"))
    spoken = [pcm(one, ReferenceVoice(tmp_path / "x.wav", words)) for words in (None, WORDS, "It is late.", None)]
    assert spoken[0] == spoken[3]
    assert len(set(spoken)) == 3
    assert encoded == {"codec": 2, "speaker": 3}
    assert counts(one) == (1, 3, 0)


@pytest.mark.parametrize(("entries", "after"), [(2, (2, 4, 2)), (0, (0, 6, 6))])
def test_the_clip_used_longest_ago_is_forgotten(tmp_path: Path, entries: int, after: tuple[int, int, int]) -> None:
    """Goes red when the cache grows without bound, forgets by age alone, or takes 0 for "no limit"."""
    one = engine(ref_audio_artifact_cache_max_entries=entries)
    for name in ("af_bella", "bm_george", "am_fenrir"):
        (tmp_path / f"{name}.wav").write_bytes(clip(name))
    for name in ("af_bella", "bm_george", "af_bella", "am_fenrir", "af_bella", "bm_george"):
        pcm(one, ReferenceVoice(tmp_path / f"{name}.wav", WORDS), max_frames=1)
        assert one.references.cache.held[0] <= entries
    assert counts(one) == after
    size = one.references.cache.held[1]
    assert size <= entries * 60_000, "the profile says at most 60 kB an entry"
    assert bool(size) == bool(entries)


class YieldingKey(ReferenceKey):
    """A key that lets other threads run while it is looked up."""

    def __hash__(self) -> int:
        time.sleep(0)
        return hash(self.audio_sha256)


def test_any_thread_may_ask() -> None:
    """Four threads over five entries of room for three: nothing breaks, and every question is counted. Goes red
    without the lock, when an entry vanishes between being found and being moved to the end.
    """
    cache, asked = ReferenceCache(3), 500
    entries = [Conditioning(speaker=torch.zeros(1)) for _ in range(5)]
    faults: list[BaseException] = []

    def ask(offset: int) -> None:
        try:
            for number in range(asked):
                which = (number * (offset + 1)) % 5
                found = cache.get(YieldingKey(str(which), None))
                assert found is None or found is entries[which]
                if found is None:
                    cache.put(YieldingKey(str(which), None), entries[which])
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=ask, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    counted = cache.counts()
    assert counted["hits"] + counted["misses"] == 4 * asked
    assert cache.held[0] == 3


def test_what_the_cache_was_worth_is_said_at_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Goes red when runs end without a word about it, or when engines that cloned nothing speak of clips."""
    caplog.set_level("INFO", logger="ttsbench")
    (tmp_path / "x.wav").write_bytes(clip("af_bella"))
    one = engine()
    one.close()
    assert "reference clips" not in caplog.text
    for _ in range(3):
        pcm(one, ReferenceVoice(tmp_path / "x.wav", WORDS), max_frames=1)
    one.close()
    assert "reference clips: 2 hits, 1 misses, 0 evictions, 1 encoded, 1 passes; 1 held" in caplog.text


def test_a_clip_that_cannot_be_used_is_not_kept(tmp_path: Path) -> None:
    """A file that is being written when it is first read is read again. Goes red when a failure is cached."""
    one, path = engine(), tmp_path / "x.wav"
    path.write_bytes(clip("af_bella")[:2000])
    with pytest.raises(RowError):
        one.references.conditioning(ReferenceVoice(path, WORDS))
    path.write_bytes(clip("af_bella"))
    assert one.references.conditioning(ReferenceVoice(path, WORDS)).reference_codes is not None


# Together.


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a CPU encode as a GPU does."""
    monkeypatch.setitem(references.TOGETHER_SAMPLES, "cpu", references.TOGETHER_SAMPLES["cuda"])


NAMES = ("af_bella", "bm_george", "am_fenrir", "bf_emma")
"""Clips of four lengths, 4.3 to 4.6 s."""


def clips(folder: Path, names: tuple[str, ...] = NAMES) -> list[ReferenceVoice]:
    """A clip each under its own path, the first without a transcript."""
    for name in names:
        (folder / f"{name}.wav").write_bytes(clip(name))
    return [ReferenceVoice(folder / f"{name}.wav", WORDS if number else None) for number, name in enumerate(names)]


def speak(engine: NativeEngine, voices: list[ReferenceVoice]) -> dict[str, list[AudioChunk]]:
    sampling = engine.info().default_sampling
    for number, voice in enumerate(voices):
        engine.submit(replace(REQUEST, id=f"r{number}", voice=voice, sampling=sampling))
    heard: dict[str, list[AudioChunk]] = {}
    for chunk in engine.chunks():
        heard.setdefault(chunk.request_id, []).append(chunk)
    return heard


@pytest.mark.usefixtures("together")
@torch.inference_mode()
def test_clips_encoded_together_are_as_if_alone(tmp_path: Path) -> None:
    """Codes equal, vectors to 1e-5 of their largest element: float32 sums of other sizes. Goes red when padding reaches
    a neighbour, or when results are handed out in another order.
    """
    together, alone, voices = engine().references, engine().references, clips(tmp_path)
    together.prepare(voices)
    for voice in voices:
        got, want = together.conditioning(voice), alone.conditioning(voice)
        assert got.speaker is not None
        assert want.speaker is not None
        assert got.reference_text == want.reference_text == voice.transcript
        torch.testing.assert_close(got.speaker, want.speaker, rtol=0, atol=1e-5 * float(want.speaker.abs().max()))
        if want.reference_codes is None:
            assert got.reference_codes is None
        else:
            assert got.reference_codes is not None
            assert torch.equal(got.reference_codes, want.reference_codes)
    assert together.counts() == alone.counts() | {"passes": 1}
    assert not together._ahead


@pytest.mark.usefixtures("together")
def test_new_clips_of_requests_that_wait_together_take_one_pass(tmp_path: Path, encoded: Counter[str]) -> None:
    """Known ones and second requests for a new one take none. Goes red when nobody looks ahead, when a clip is encoded
    twice in a pass, or when a request counts as a hit because its clip was encoded a moment before.
    """
    one, voices = engine(), clips(tmp_path)
    speak(one, voices[1:2])
    speak(one, [*voices, voices[3]])
    assert encoded == {"codec": 2, "speaker": 2}
    assert one.stats()["references"] == {"hits": 2, "misses": 4, "evictions": 0, "encoded": 4, "passes": 2}


@pytest.mark.usefixtures("together")
def test_batch_invariant_encodes_alone(tmp_path: Path) -> None:
    """Byte for byte what each clip gives by itself, which rounding in a shared pass would not. Goes red when that level
    looks ahead.
    """
    invariant = {"determinism": "batch_invariant", "max_num_seqs": 4}
    one, voices = engine(**invariant), clips(tmp_path)
    heard = speak(one, voices)
    told = one.stats()["references"]
    assert told["passes"] == told["encoded"] == 4
    for number, voice in enumerate(voices):
        (by_itself,) = speak(engine(**invariant), [voice]).values()
        for got, want in zip(heard[f"r{number}"], by_itself, strict=True):
            assert got.pcm.tobytes() == want.pcm.tobytes()


@pytest.mark.usefixtures("together")
def test_a_bad_clip_among_good_ones_fails_its_request_alone(tmp_path: Path) -> None:
    """Goes red when one unreadable clip breaks the pass of the others, or is encoded as silence."""
    one, voices = engine(), clips(tmp_path)
    voices[2].audio.write_bytes(b"RIFF")
    heard = speak(one, voices)
    failed = {name for name, chunks in heard.items() if chunks[-1].finish and chunks[-1].finish.code}
    assert failed == {"r2"}
    told = one.stats()["references"]
    assert (told["encoded"], told["passes"]) == (3, 1)


def test_a_pass_that_breaks_costs_time_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As when memory is short: each clip is then encoded by itself. Goes red when the error ends the engine."""

    def broken(self: References, voices: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(References, "prepare", broken)
    heard = speak(engine(), clips(tmp_path))
    assert all(chunks[-1].finish and not chunks[-1].finish.code for chunks in heard.values())
    assert "4 requests could not be made ready together" in caplog.text


@pytest.mark.usefixtures("together")
def test_each_request_is_announced_once_and_only_with_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two slots for five requests of which two end in the same step: two, two, and one that is alone. Then four slots
    and memory for one request: all four are looked at while three still wait. Goes red when those are looked at again
    with every step (leave `announced` out).
    """
    announced: list[int] = []
    prepare = References.prepare

    def counted(self: References, voices: list[ReferenceVoice]) -> None:
        announced.append(len(voices))
        prepare(self, voices)

    monkeypatch.setattr(References, "prepare", counted)
    speak(engine(max_num_seqs=2), [*clips(tmp_path), *clips(tmp_path)[:1]])
    assert announced == [2, 2]
    announced.clear()
    one = engine(max_num_seqs=4, num_kv_blocks=8, max_model_len=128)
    speak(one, clips(tmp_path))
    assert announced == [4]
    assert one.stats()["references"]["passes"] == 1


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ((5,) * 9, [8, 1]),
        ((30, 5, 5, 5), [3, 1]),
        ((30, 30), [1, 1]),
        ((20, 20), [2]),
        ((), []),
    ],
)
def test_passes_are_bounded_with_their_padding(seconds: tuple[int, ...], expected: list[int]) -> None:
    """Goes red when padding does not count, or a clip that fills a pass alone is left out."""
    made = [Clip(ReferenceKey(str(number), None), torch.zeros(24_000 * s)) for number, s in enumerate(seconds)]
    groups = list(passes(made, references.TOGETHER_SAMPLES["cuda"]))
    assert [len(group) for group in groups] == expected
    assert all(len(group) == 1 for group in passes(made, references.TOGETHER_SAMPLES["cpu"]))
    assert sorted(clip.key.audio_sha256 for group in groups for clip in group) == [str(n) for n in range(len(seconds))]


@pytest.mark.gpu
@torch.inference_mode()
def test_encoding_on_a_gpu_gives_the_codes_of_the_cpu_and_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one and together, float32 without TF32. Red with a copy from memory that is not pinned, or a length that
    is asked of the device.
    """
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    voices, cpu = clips(tmp_path)[1:], engine().references
    gpus = [engine(device="cuda").references for _ in range(2)]
    for each in gpus:
        each.prepare(voices)  # compiles, plans and fills caches of constants
        for voice in voices:
            each._encoded([each._clip(ReferenceKey("", WORDS), voice.audio.read_bytes(), voice.audio)])
    with no_waiting():
        gpus[0].prepare(voices)
        one_by_one = [gpus[1].conditioning(voice) for voice in voices]
    for voice, single in zip(voices, one_by_one, strict=True):
        want = cpu.conditioning(voice)
        for got in (gpus[0].conditioning(voice), single):
            assert got.speaker is not None
            assert want.speaker is not None
            assert got.reference_codes is not None
            assert want.reference_codes is not None
            torch.testing.assert_close(got.speaker.cpu(), want.speaker, rtol=0, atol=1e-4)
            assert (got.reference_codes.cpu() != want.reference_codes).float().mean() < 0.01

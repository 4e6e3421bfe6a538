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
from ttsbench.adapters.native import NativeEngine
from ttsbench.adapters.references import ReferenceCache, ReferenceKey
from ttsbench.core import ReferenceVoice, RowError
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

    count("codec", CodecEncoder, "features")
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
    assert "reference clips: 2 hits, 1 misses, 0 evictions; 1 held" in caplog.text


def test_a_clip_that_cannot_be_used_is_not_kept(tmp_path: Path) -> None:
    """A file that is being written when it is first read is read again. Goes red when a failure is cached."""
    one, path = engine(), tmp_path / "x.wav"
    path.write_bytes(clip("af_bella")[:2000])
    with pytest.raises(RowError):
        one.references.conditioning(ReferenceVoice(path, WORDS))
    path.write_bytes(clip("af_bella"))
    assert one.references.conditioning(ReferenceVoice(path, WORDS)).reference_codes is not None

"""Reference clips as the talker takes them, each encoded once: what a cloned voice costs at its first request alone.

A clip is known by the bytes of its file, never by path or label: a file that was overwritten is another voice, and one
clip under two names is one. What is kept belongs to those bytes and the transcript; checkpoint, number type and device
are those of the engine that owns the cache. With a transcript it is a speaker vector and the clip's codes, without one
(x-vector cloning) the vector alone, and the codec encoder does not run.

New clips of requests that wait together are encoded together (`prepare`), of several lengths in one pass.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import torch

from ttsbench.core import ReferenceVoice, RowError
from ttsbench.corpus import decode_reference_24k, reference_bytes
from ttsbench.models.device import on_device
from ttsbench.models.qwen3_tts.checkpoint import Checkpoint
from ttsbench.models.qwen3_tts.prompt import Conditioning

TOGETHER_SAMPLES = {"cuda": 40 * 24_000, "cpu": 0}
"""Most samples of a pass over several clips, the longest counting for all: eight of 5 s on a GPU.

The first layers of the codec encoder take 256 bytes for each, in single precision, several times over. That does not
fit a CPU's caches: eight clips of 4 s took half as long again in one pass as one by one (docs/measurements.md).
"""


@dataclass(frozen=True)
class ReferenceKey:
    """What a conditioning follows from, within one engine."""

    audio_sha256: str
    """Of the clip's file."""
    transcript: str | None


class ReferenceCache:
    """Conditionings of the `max_entries` clips used last. Any thread may call; 0 entries keep nothing."""

    def __init__(self, max_entries: int) -> None:
        self.max_entries = max_entries
        self._entries: OrderedDict[ReferenceKey, Conditioning] = OrderedDict()
        self._counts = {"hits": 0, "misses": 0, "evictions": 0}
        self._lock = Lock()

    def get(self, key: ReferenceKey) -> Conditioning | None:
        """What is kept for `key`, counted as a hit; None is counted as a miss."""
        with self._lock:
            found = self._entries.get(key)
            self._counts["misses" if found is None else "hits"] += 1
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def __contains__(self, key: ReferenceKey) -> bool:
        """Whether `get` would find it; not counted."""
        with self._lock:
            return key in self._entries

    def put(self, key: ReferenceKey, conditioning: Conditioning) -> None:
        """Keep `conditioning`, and forget what was used longest ago where there are too many."""
        with self._lock:
            self._entries[key] = conditioning
            self._entries.move_to_end(key)
            while len(self._entries) > self.max_entries:
                self._entries.popitem(last=False)
                self._counts["evictions"] += 1

    def counts(self) -> dict[str, int]:
        """Hits, misses and evictions so far."""
        with self._lock:
            return dict(self._counts)

    @property
    def held(self) -> tuple[int, int]:
        """Entries, and bytes of their tensors."""
        with self._lock:
            tensors = [t for e in self._entries.values() for t in (e.speaker, e.reference_codes) if t is not None]
            return len(self._entries), sum(tensor.nbytes for tensor in tensors)


@dataclass(frozen=True)
class Clip:
    """Samples [S] at 24 kHz on the device, under what they will be known by."""

    key: ReferenceKey
    wav: torch.Tensor


class References:
    """Turns the clips of requests into what their prompts are built from. For one thread, but for its cache."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device, max_entries: int) -> None:
        self.cache = ReferenceCache(max_entries)
        self._checkpoint = checkpoint
        self._device = device
        self._ahead: dict[ReferenceKey, Conditioning] = {}
        self._passes = {"encoded": 0, "passes": 0}

    def conditioning(self, voice: ReferenceVoice) -> Conditioning:
        """Of a cloned voice. Raises RowError for a clip that cannot be used; its file is read every time."""
        data = reference_bytes(voice.audio)
        key = _key(data, voice)
        found = self.cache.get(key)
        if found is None:
            found = self._ahead.pop(key, None)
            if found is None:
                (found,) = self._encoded([self._clip(key, data, voice.audio)])
            self.cache.put(key, found)
        return found

    def prepare(self, voices: Sequence[ReferenceVoice]) -> None:
        """Encode the new clips among `voices`, whose conditionings will be asked for soon, in as few passes as may be.

        What of the last call nobody has asked for is forgotten. Clips that cannot be used are left for `conditioning`
        to refuse.
        """
        self._ahead.clear()
        clips: dict[ReferenceKey, Clip] = {}
        for voice in voices:
            try:
                data = reference_bytes(voice.audio)
                key = _key(data, voice)
                if key not in clips and key not in self.cache:
                    clips[key] = self._clip(key, data, voice.audio)
            except RowError:
                continue
        for some in passes(list(clips.values()), TOGETHER_SAMPLES[self._device.type]):
            self._ahead.update(zip((clip.key for clip in some), self._encoded(some), strict=True))

    def counts(self) -> dict[str, int]:
        """Of the cache; clips encoded, and passes that it took."""
        return {**self.cache.counts(), **self._passes}

    def _clip(self, key: ReferenceKey, data: bytes, path: Path) -> Clip:
        """Raises RowError for a clip that cannot be used."""
        encoder = self._checkpoint.model.speaker_encoder
        assert encoder is not None, "a Base checkpoint has a speaker encoder"
        wav = torch.from_numpy(decode_reference_24k(data, path))
        encoder.check(wav)
        return Clip(key, on_device(wav, self._device))

    def _encoded(self, clips: Sequence[Clip]) -> list[Conditioning]:
        """In one pass of each encoder; the codec's takes those with a transcript alone."""
        model, codec = self._checkpoint.model, self._checkpoint.codec
        assert model.speaker_encoder is not None, "a Base checkpoint has a speaker encoder"
        vectors = model.speaker_encoder.embed_all([clip.wav for clip in clips]).to(model.talker.codec_head.weight.dtype)
        spoken = [clip for clip in clips if clip.key.transcript is not None]
        codes = codec.encoder.encode_all([clip.wav for clip in spoken]) if spoken else []
        coded = dict(zip((clip.key for clip in spoken), codes, strict=True))
        self._passes["encoded"] += len(clips)
        self._passes["passes"] += 1
        # Copies: a view would keep what the whole pass gave alive, for as long as one of its clips is kept.
        return [
            Conditioning(
                speaker=vector.clone(),
                reference_codes=coded[clip.key].clone() if clip.key in coded else None,
                reference_text=clip.key.transcript,
            )
            for clip, vector in zip(clips, vectors, strict=True)
        ]


def passes(clips: Sequence[Clip], most_samples: int) -> Iterator[list[Clip]]:
    """All of `clips`, the shortest first, in groups of at most `most_samples` with their padding, or of one."""
    group: list[Clip] = []
    for clip in sorted(clips, key=lambda clip: len(clip.wav)):
        if group and (len(group) + 1) * len(clip.wav) > most_samples:
            yield group
            group = []
        group.append(clip)
    if group:
        yield group


def _key(data: bytes, voice: ReferenceVoice) -> ReferenceKey:
    return ReferenceKey(hashlib.sha256(data).hexdigest(), voice.transcript)

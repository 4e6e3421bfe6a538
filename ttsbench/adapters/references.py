"""Reference clips as the talker takes them, each encoded once: what a cloned voice costs at its first request alone.

A clip is known by the bytes of its file, never by path or label: a file that was overwritten is another voice, and one
clip under two names is one. What is kept belongs to those bytes and the transcript; checkpoint, number type and device
are those of the engine that owns the cache. With a transcript it is a speaker vector and the clip's codes, without one
(x-vector cloning) the vector alone, and the codec encoder does not run.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import torch

from ttsbench.core import ReferenceVoice
from ttsbench.corpus import decode_reference_24k, reference_bytes
from ttsbench.models.device import on_device
from ttsbench.models.qwen3_tts.checkpoint import Checkpoint
from ttsbench.models.qwen3_tts.prompt import Conditioning


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


class References:
    """Turns the clips of requests into what their prompts are built from."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device, max_entries: int) -> None:
        self.cache = ReferenceCache(max_entries)
        self._checkpoint = checkpoint
        self._device = device

    def conditioning(self, voice: ReferenceVoice) -> Conditioning:
        """Of a cloned voice. Raises RowError for a clip that cannot be used; its file is read every time."""
        data = reference_bytes(voice.audio)
        key = ReferenceKey(hashlib.sha256(data).hexdigest(), voice.transcript)
        found = self.cache.get(key)
        if found is None:
            found = self._encoded(data, voice.audio, voice.transcript)
            self.cache.put(key, found)
        return found

    def _encoded(self, data: bytes, path: Path, transcript: str | None) -> Conditioning:
        wav = on_device(torch.from_numpy(decode_reference_24k(data, path)), self._device)
        model, codec = self._checkpoint.model, self._checkpoint.codec
        assert model.speaker_encoder is not None, "a Base checkpoint has a speaker encoder"
        speaker = model.speaker_encoder.embed(wav).to(model.talker.codec_head.weight.dtype)
        codes = None if transcript is None else codec.encoder.encode(wav)
        return Conditioning(speaker=speaker, reference_codes=codes, reference_text=transcript)

"""From a corpus row to a request: its voice, its seed, and whether it can be spoken at all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ttsbench.core import (
    NamedVoice,
    ReferenceVoice,
    RowError,
    SamplingParams,
    SpeechRequest,
    TextLayout,
    Voice,
    VoiceDescription,
)
from ttsbench.core.request import SEED_LIMIT
from ttsbench.corpus import CorpusRow, content_problem


@dataclass(frozen=True)
class RowClip:
    """Every row brings its own voice: its prompt clip, with the clip's words for in-context cloning."""

    in_context: bool = True


RunVoice = NamedVoice | VoiceDescription | RowClip
"""One voice for every row, or each row's own."""


@dataclass(frozen=True)
class RowPlan:
    """What all rows of a run share."""

    voice: RunVoice
    language: str
    sampling: SamplingParams
    text_layout: TextLayout
    seed: int
    max_frames: int

    def request(self, row: CorpusRow, attempt: int) -> SpeechRequest:
        """The request for one row whose content `problem` passed. Attempts of a row share its seed."""
        return SpeechRequest(
            id=f"{row.utterance_id}#{attempt}",
            utterance_id=row.utterance_id,
            text=row.text,
            voice=self._voice_of(row),
            seed=row_seed(self.seed, row.utterance_id),
            max_frames=self.max_frames,
            language=self.language,
            sampling=self.sampling,
            text_layout=self.text_layout,
        )

    def problem(self, row: CorpusRow) -> RowError | None:
        """Why this row's content cannot be spoken, or None."""
        return row_problem(row, self.voice)

    def _voice_of(self, row: CorpusRow) -> Voice:
        if not isinstance(self.voice, RowClip):
            return self.voice
        if row.prompt_audio is None:
            raise ValueError(f"row {row.utterance_id} names no clip; `problem` stops such rows")
        return ReferenceVoice(row.prompt_audio, row.prompt_text if self.voice.in_context else None)


def row_problem(row: CorpusRow, voice: RunVoice) -> RowError | None:
    """Why this row's content cannot be spoken with such a voice, or None."""
    if isinstance(voice, RowClip):
        return content_problem(row, needs_reference=True, needs_transcript=voice.in_context)
    return content_problem(row, needs_reference=False)


def row_seed(run_seed: int, utterance_id: str) -> int:
    """A row's own seed: a hash of the run's seed and the row's id, so that rows draw independent noise in any order."""
    digest = hashlib.sha256(f"{run_seed}:{utterance_id}".encode()).digest()
    return int.from_bytes(digest[:8]) % SEED_LIMIT

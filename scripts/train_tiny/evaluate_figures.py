"""From takes to figures: each take measured once, then any set of takes summed up.

A figure that cannot be had is None: no judge was given, no take has audio, or no teacher spoke the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jiwer
import numpy as np

from scripts.train_tiny.evaluate_sound import clipped_samples, edge_ratio, level_dbfs
from scripts.train_tiny.evaluate_takes import Take
from scripts.train_tiny.evaluate_voices import Dnsmos, Judge
from ttsbench.records import RowStatus
from ttsbench.score.audio import decode_wav
from ttsbench.score.wer import WordEdits, all_deleted, split_words, word_edits


@dataclass(frozen=True)
class Measured:
    """One take and what was found in it."""

    take: Take
    edits: WordEdits
    last_word_right: bool
    seconds: float | None
    level_dbfs: float | None
    clipped: int
    edge_ratio: float | None
    dnsmos: float | None
    vectors: Mapping[str, np.ndarray]
    """By the judge's name; empty for a take without sound."""


def measure(take: Take, judges: Sequence[Judge], dnsmos: Dnsmos | None) -> Measured:
    """All of one take. A take in which nothing was heard has lost all its words."""
    heard = take.hypothesis is not None
    edits = word_edits(take.reference, take.hypothesis or "") if heard else all_deleted(take.reference)
    right = heard and last_word_right(take.reference, take.hypothesis or "")
    if take.wav is None or take.silent:
        return Measured(take, edits, right, None, None, 0, None, None, {})
    sound = decode_wav(take.wav.read_bytes())
    return Measured(
        take=take,
        edits=edits,
        last_word_right=right,
        seconds=sound.duration_s,
        level_dbfs=level_dbfs(sound.samples),
        clipped=clipped_samples(sound.samples),
        edge_ratio=edge_ratio(sound.samples),
        dnsmos=None if dnsmos is None else dnsmos.overall(sound),
        vectors={judge.name: judge.embed(sound) for judge in judges},
    )


def last_word_right(reference: str, hypothesis: str) -> bool:
    """Whether the alignment finds the last reference word in the hypothesis; more words may follow it."""
    expected, heard = split_words(reference), split_words(hypothesis)
    if not expected or not heard:
        return False
    (alignment,) = jiwer.process_words(" ".join(expected), " ".join(heard)).alignments
    return any(part.type == "equal" and part.ref_end_idx == len(expected) for part in alignment)


@dataclass(frozen=True)
class References:
    """What voices are compared with: one sum of vectors per voice, so that a member can be taken out of its own."""

    voices: tuple[str, ...]
    sums: Mapping[str, np.ndarray]
    """By the judge's name, [V, D]."""

    @classmethod
    def of(cls, vectors: Mapping[str, Sequence[Mapping[str, np.ndarray]]]) -> References:
        """From each voice's vectors by judge."""
        judges = {name for several in vectors.values() for one in several for name in one}
        sums = {
            name: np.stack([np.sum([one[name] for one in several], axis=0) for several in vectors.values()])
            for name in judges
        }
        return cls(tuple(vectors), sums)

    def cosines(self, judge: str, takes: Sequence[Measured], among: bool) -> tuple[np.ndarray, np.ndarray]:
        """Cosines [n, V] with every voice's mean, and each take's own voice [n].

        `among` says that the takes are those that were summed: each then meets its own voice's mean without itself.
        """
        own = np.array([self.voices.index(one.take.voice) for one in takes])
        vectors = np.stack([one.vectors[judge] for one in takes])
        sums = self.sums[judge]
        cosines = vectors @ (sums / np.linalg.norm(sums, axis=1, keepdims=True)).T
        if among:
            others = sums[own] - vectors
            cosines[np.arange(len(own)), own] = (vectors * others).sum(1) / np.linalg.norm(others, axis=1)
        return cosines, own


def figures(
    takes: Sequence[Measured],
    references: References,
    teacher_s: Mapping[tuple[str, str], float],
    among: bool = False,
) -> dict[str, Any]:
    """Everything about these takes; `teacher_s` are the teacher's durations by voice and row."""
    seeds = sorted({one.take.seed for one in takes})
    by_seed = {str(seed): wer_pct([one for one in takes if one.take.seed == seed]) for seed in seeds}
    ratios = [
        one.seconds / teacher_s[one.take.voice, one.take.row]
        for one in takes
        if one.seconds is not None and (one.take.voice, one.take.row) in teacher_s
    ]
    statuses = [one.take.status for one in takes]
    sounding = [one for one in takes if one.vectors]
    judged = {name: references.cosines(name, sounding, among) for name in sorted(references.sums) if sounding}
    return {
        "rows": len(takes),
        "wer_pct": wer_pct(takes),
        "wer_pct_by_seed": by_seed,
        "wer_pct_worst_seed": max(by_seed.values()),
        "last_word_right_pct": 100 * float(np.mean([one.last_word_right for one in takes])),
        "rows_at_length_limit": statuses.count(RowStatus.LENGTH),
        "silent_rows": sum(one.take.silent for one in takes),
        "failed_rows": sum(status not in (RowStatus.OK, RowStatus.LENGTH, RowStatus.EMPTY) for status in statuses),
        "duration_ratio": _mean(ratios),
        "duration_ratio_sd": float(np.std(ratios)) if ratios else None,
        "own_cosine": {name: float(c[np.arange(len(own)), own].mean()) for name, (c, own) in judged.items()},
        # silent takes are nearest to nobody
        "nearest_own_pct": {
            name: 100 * float((c.argmax(1) == own).sum()) / len(takes) for name, (c, own) in judged.items()
        },
        "dnsmos": _mean([one.dnsmos for one in takes]),
        "level_dbfs": _mean([one.level_dbfs for one in takes]),
        "clipped_samples": sum(one.clipped for one in takes),
        "edge_ratio": _mean([one.edge_ratio for one in takes]),
    }


def wer_pct(takes: Sequence[Measured]) -> float:
    """Corpus word error rate in percent."""
    return 100 * sum(one.edits.errors for one in takes) / sum(one.edits.reference_words for one in takes)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None

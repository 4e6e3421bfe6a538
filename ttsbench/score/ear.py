"""A recogniser with what is done to audio before it. Protocols that pin the same share what it heard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue

from ttsbench.core import InvalidInput, Problem
from ttsbench.records import canonical_sha256
from ttsbench.score.asr import AsrSpec
from ttsbench.score.asr.weights import package_versions
from ttsbench.score.audio import Audio
from ttsbench.score.protocol import ScoringProtocol
from ttsbench.score.transcripts import KnownFailures, KnownTranscripts, TranscriptCache

ONE_AT_A_TIME: Mapping[str, JsonValue] = {"after_failure": "all rows anew, one at a time"}
"""Stands in the identity of transcripts made after the recogniser broke: they are kept apart from the usual ones."""


@dataclass(frozen=True)
class Ear:
    """One way from a WAV file to words."""

    asr: AsrSpec
    samples: Callable[[Audio], np.ndarray]
    """Audio as the recogniser takes it: 16 kHz mono float32, shape [samples]."""
    identity: Mapping[str, JsonValue]
    """Everything that decides a transcript."""

    @classmethod
    def of(cls, protocol: ScoringProtocol) -> Ear:
        """Raises InvalidInput when a package, or weights whose hashes are not pinned, are not there."""
        software = protocol.asr.versions() | package_versions("soxr")
        identity: dict[str, JsonValue] = {
            "asr": protocol.asr.pinned(),
            "audio": protocol.pinned()["audio"],
            "found": protocol.asr.found(),
            "software": dict(software),
        }
        return cls(protocol.asr, protocol.samples, identity)

    @property
    def sha256(self) -> str:
        return canonical_sha256(dict(self.identity))

    def known(self, cache: TranscriptCache | None, one_at_a_time: bool = False) -> KnownTranscripts:
        """What it has heard so far, in the usual way or after a failure; nothing without a cache."""
        if cache is None or not self.asr.cacheable:
            return KnownTranscripts()
        return cache.of(canonical_sha256({**self.identity, **(ONE_AT_A_TIME if one_at_a_time else {})}))

    def failures(self, cache: TranscriptCache | None) -> KnownFailures:
        """On what it broke in the usual way; nothing without a cache."""
        return KnownFailures() if cache is None or not self.asr.cacheable else cache.failures_of(self.sha256)


def ears_of(protocols: Sequence[ScoringProtocol]) -> dict[str, Ear]:
    """The ear of each protocol, by its id. Raises InvalidInput with all that is missing, packages of text rules too."""
    ears: dict[str, Ear] = {}
    problems: list[Problem] = []
    for protocol in protocols:
        try:
            protocol.check_text_rule()
            ears[protocol.id] = Ear.of(protocol)
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(list(dict.fromkeys(problems)))
    return ears

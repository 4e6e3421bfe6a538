"""Speech recognisers behind one small interface.

An `AsrSpec` is data: what a protocol pins. Opening it checks that what is installed is what is pinned, and gives a
`Transcriber`. There is no fallback from one recogniser to another.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from pydantic import JsonValue


class Transcriber(Protocol):
    """Speech in, words out. `transcribe` depends on its audio alone; `workers` threads may call it at once."""

    workers: int

    def transcribe(self, samples: np.ndarray) -> str:
        """Text of 16 kHz mono float32 samples, as the recogniser writes it."""


class AsrSpec(Protocol):
    """A pinned recogniser."""

    def pinned(self) -> dict[str, JsonValue]:
        """Everything that decides what it hears."""

    def open(self) -> Transcriber:
        """Check and load it. Raises InvalidInput when something is missing or is not what is pinned."""

    def versions(self) -> dict[str, str]:
        """Versions of the packages it runs on, by name."""

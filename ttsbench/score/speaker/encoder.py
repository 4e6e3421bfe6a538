"""What a speaker encoder is to the judge. Cosines of different encoders never meet in one comparison."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from pydantic import JsonValue


class SpeakerEncoder(Protocol):
    """Hears a voice as a direction: the closer two directions, the more alike the voices."""

    @property
    def name(self) -> str:
        """The model's id."""

    def pinned(self) -> dict[str, JsonValue]:
        """Everything that decides its vectors: id, hash of every weight file, handling of the audio."""

    def embed(self, samples: np.ndarray) -> np.ndarray:
        """Unit vector [D], float32, of 16 kHz mono float32 samples [S]: at least 0.3 s, not silent.

        Depends on its samples alone.
        """

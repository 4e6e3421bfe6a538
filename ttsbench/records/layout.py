"""Where things lie in a run folder. The only place that knows the names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunFolder:
    """Paths inside one run folder; nothing is created or read."""

    path: Path

    @property
    def manifest(self) -> Path:
        return self.path / "run.json"

    @property
    def requests(self) -> Path:
        return self.path / "requests.jsonl"

    @property
    def trace(self) -> Path:
        return self.path / "trace.jsonl"

    @property
    def wav(self) -> Path:
        return self.path / "wav"

    @property
    def scores(self) -> Path:
        return self.path / "scores.json"

    def score_rows(self, scorer: str) -> Path:
        """The per-row file of a scorer: `speaker`, `frames`, `pcm` or `timing`."""
        return self.path / "scores" / f"{scorer}.jsonl"

    def wer_rows(self, protocol_id: str) -> Path:
        return self.score_rows(f"wer-{protocol_id}")

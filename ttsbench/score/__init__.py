"""Judging a finished run from its records and WAVs alone; no engine is needed, or imported."""

from ttsbench.score.protocol import PROTOCOLS, ScoringProtocol, find_protocol
from ttsbench.score.run import Progress, score_run, score_under

__all__ = ["PROTOCOLS", "Progress", "ScoringProtocol", "find_protocol", "score_run", "score_under"]

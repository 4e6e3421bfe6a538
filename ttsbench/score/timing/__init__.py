"""Throughput, latency and playback continuity of a run, from its records."""

from ttsbench.score.timing.judge import judge_timing

__all__ = ["judge_timing"]

"""What can be heard of lost, repeated and broken frames when the engine gives no trace."""

from ttsbench.score.pcm.judge import judge_pcm

__all__ = ["judge_pcm"]

"""What can be heard of lost, repeated and broken frames when the engine gives no trace."""

from ttsbench.score.pcm.judge import judge_pcm
from ttsbench.score.pcm.leak import Saying, leaks

__all__ = ["Saying", "judge_pcm", "leaks"]

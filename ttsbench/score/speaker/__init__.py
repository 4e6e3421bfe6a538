"""Whose voice it is: speech compared with the clip that it was to sound like, by a speaker encoder.

Encoders live in their own modules, which bring their packages along: `ttsbench.score.speaker.ge2e` is the embedded one.
"""

from ttsbench.score.speaker.encoder import SpeakerEncoder
from ttsbench.score.speaker.judge import judge_speaker

__all__ = ["SpeakerEncoder", "judge_speaker"]

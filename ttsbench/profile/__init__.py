"""A profile names everything that shapes an engine, in one flat YAML file; it is checked whole before any work."""

from ttsbench.profile.load import load_profile
from ttsbench.profile.shipped import shipped_profiles
from ttsbench.profile.types import CodePredictorSampling, Profile, TalkerSampling

__all__ = ["CodePredictorSampling", "Profile", "TalkerSampling", "load_profile", "shipped_profiles"]

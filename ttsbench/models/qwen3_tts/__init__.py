"""Qwen3-TTS at 12.5 codec frames per second: talker, code predictor, codec, speaker encoder, prompts, weights."""

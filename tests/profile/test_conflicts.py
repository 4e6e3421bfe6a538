"""Settings that exclude each other are judged on the merged result, and both are named with the place that set them."""

from __future__ import annotations

import pytest

from tests.profile.conftest import Faults, Write
from ttsbench.profile import load_profile


def test_a_two_stage_talker_does_not_decode(write: Write, faults: Faults) -> None:
    """Goes red when talker_stream_decode is accepted, or ignored, where the codec is a stage of its own."""
    assert faults(write("pipeline: qwen3_tts\ntalker_stream_decode: true\n")) == [
        "mine.yaml:2 talker_stream_decode: expected false, since the codec is a stage of its own, "
        "with pipeline: qwen3_tts (mine.yaml:1), got true; for a talker that decodes set pipeline: qwen3_tts_fused"
    ]


@pytest.mark.parametrize(("text", "origin"), [("", "default"), ("talker_stream_decode: false\n", "mine.yaml:2")])
def test_a_fused_talker_decodes(write: Write, faults: Faults, text: str, origin: str) -> None:
    """Goes red when a fused profile may say that its talker does not decode, or say nothing."""
    (fault,) = faults(write("pipeline: qwen3_tts_fused\n" + text))
    assert fault.startswith(f"{origin} talker_stream_decode: expected true, ")
    assert "with pipeline: qwen3_tts_fused (mine.yaml:1), got false" in fault


def test_two_first_frame_decoders_exclude_each_other_across_files(write: Write, faults: Faults) -> None:
    """Goes red when each source is judged alone: base and overlay are both sound here, their sum is not."""
    write("pipeline: qwen3_tts\ntalker_first_audio: true\n", "base.yaml")
    text = "base_config: base.yaml\npipeline: qwen3_tts_fused\ntalker_stream_decode: true\n"
    assert load_profile(write(text), {"talker_first_audio": "false"}).talker_stream_decode
    (fault,) = faults(write(text))
    assert fault.startswith("base.yaml:2 talker_first_audio: expected false, ")
    assert "with talker_stream_decode: true (mine.yaml:3), got true" in fault
    assert "talker_stream_first_audio" in fault


def test_streamed_first_audio_needs_the_streaming_decoder(write: Write, faults: Faults) -> None:
    """Goes red when talker_stream_first_audio is accepted in two stages, where nothing would read it."""
    (fault,) = faults(write("pipeline: qwen3_tts\ntalker_stream_first_audio: true\n"))
    assert fault.startswith("mine.yaml:2 talker_stream_first_audio: expected false, ")
    assert "with talker_stream_decode: false (default)" in fault


def test_left_context_belongs_to_two_stages(write: Write, faults: Faults) -> None:
    """Goes red when a fused profile accepts a window that its stateful codec does not have; 0 is a window too."""
    fused = write("pipeline: qwen3_tts_fused\ntalker_stream_decode: true\ncodec_left_context_frames: 0\n")
    (fault,) = faults(fused)
    assert fault.startswith("mine.yaml:3 codec_left_context_frames: expected null, ")
    assert "pipeline: qwen3_tts_fused (mine.yaml:1), got 0" in fault
    two_stage = load_profile(write("pipeline: qwen3_tts\ncodec_left_context_frames: 72\n"))
    assert two_stage.codec_left_context_frames == 72


def test_fewest_frames_are_at_most_the_most(write: Write, faults: Faults) -> None:
    """Goes red when an utterance may be forbidden to end before it must end; equal limits are sound."""
    text = "pipeline: qwen3_tts\ndefault_sampling_params: {min_tokens: 5, max_tokens: 5}\n"
    load_profile(write(text))
    (fault,) = faults(write(text), {"default_sampling_params.max_tokens": "4"})
    assert fault.startswith("mine.yaml:2 default_sampling_params.min_tokens: expected at most max_tokens, with ")
    assert "default_sampling_params.max_tokens: 4 (command line), got 5" in fault


def test_one_whole_request_fits_into_the_kv_blocks(write: Write, faults: Faults) -> None:
    """Goes red when the blocks of the whole pool cannot hold one request of full length: it would wait for ever."""
    text = "pipeline: qwen3_tts\nmax_model_len: 64\nblock_size: 16\nnum_kv_blocks: 4\n"
    load_profile(write(text))
    (fault,) = faults(write(text), {"num_kv_blocks": "3"})
    assert fault.startswith("command line num_kv_blocks: expected blocks for at least one whole request")
    assert "max_model_len: 64 (mine.yaml:2), block_size: 16 (mine.yaml:3), got 3" in fault


def test_a_faulty_setting_draws_no_conflict(write: Write, faults: Faults) -> None:
    """Goes red when a conflict is judged by the default of a key whose own value was refused: that is noise."""
    text = "pipeline: qwen3_tts_fused\n"
    (fault,) = faults(write(text + "talker_stream_decode: yes\n"))
    assert fault.startswith("mine.yaml:2 talker_stream_decode: expected true or false")
    for value in ("yes", "["):
        (fault,) = faults(write(text), {"talker_stream_decode": value})
        assert fault.startswith("command line talker_stream_decode: expected ")


def test_a_faulty_map_draws_no_conflict(write: Write, faults: Faults) -> None:
    """Goes red when the keys that a refused map may have held are taken for unset."""
    base = "pipeline: qwen3_tts\ndefault_sampling_params: {max_tokens: 4}\n"
    for value in ("9", "["):
        overrides = {"default_sampling_params": value, "default_sampling_params.min_tokens": "5"}
        (fault,) = faults(write(base), overrides)
        assert fault.startswith("command line default_sampling_params: expected ")

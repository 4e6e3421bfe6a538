"""Base files, overlays and the command line: maps merge key by key, and every layer is held to the same rules."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.profile.conftest import Faults, Write
from ttsbench.profile import load_profile
from ttsbench.profile.layer import Layer, Setting

BASE = """
    pipeline: qwen3_tts_fused
    talker_stream_decode: true
    max_num_seqs: 4
    default_sampling_params:
      temperature: 0.7
      top_k: 20
      top_p: 0.5
"""


def test_a_one_key_overlay_changes_one_key(write: Write) -> None:
    """Goes red when a map of the overlay replaces the base's map: its siblings would fall back to the defaults."""
    base = load_profile(write(BASE, "base.yaml")).resolved()
    overlay = load_profile(write("base_config: base.yaml\ndefault_sampling_params: {top_k: 1}\n")).resolved()
    assert overlay.pop("name") == "mine"
    base.pop("name")
    assert overlay["default_sampling_params"].pop("top_k") == 1
    assert base["default_sampling_params"].pop("top_k") == 20
    assert overlay == base


def test_null_and_zero_of_an_overlay_replace_the_base(write: Write) -> None:
    """Goes red when an overlay's value is tested by its truth: a base's number could never be taken back."""
    write(BASE, "base.yaml")
    text = "base_config: base.yaml\ndefault_sampling_params: {temperature: null, top_k: 0}\n"
    sampling = load_profile(write(text)).default_sampling_params
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (None, 0, 0.5)


def test_overlays_stack_and_paths_are_relative_to_their_file(write: Write) -> None:
    """Goes red when a base is looked for in the working directory, or a nearer file loses to a farther one."""
    write(BASE, "bases/far.yaml")
    write("base_config: far.yaml\nmax_num_seqs: 5\nblock_size: 32\n", "bases/near.yaml")
    profile = load_profile(write("base_config: bases/near.yaml\nblock_size: 8\n"))
    assert (profile.max_num_seqs, profile.block_size, profile.default_sampling_params.top_k) == (5, 8, 20)


@given(
    st.lists(st.dictionaries(st.sampled_from(["a.x", "a.y", "b"]), st.integers() | st.none(), max_size=3), max_size=5)
)
def test_the_last_layer_that_names_a_key_decides(layers: list[dict[str, int | None]]) -> None:
    """Goes red when laying one layer on another drops or keeps a key that it should not."""
    merged = Layer()
    for index, values in enumerate(layers):
        merged.lay(Layer({key: Setting(value, str(index)) for key, value in values.items()}))
    for key in ("a.x", "a.y", "b"):
        saying = [(values[key], str(index)) for index, values in enumerate(layers) if key in values]
        found = merged.settings.get(key)
        assert (found and (found.value, found.origin)) == (saying[-1] if saying else None)


def test_a_fault_in_a_base_names_the_base(write: Write, faults: Faults) -> None:
    """Goes red when a base is not checked, or its faults carry the overlay's name. An overlay does not hide them."""
    write(BASE + "    block_size: none\n", "base.yaml")
    (fault,) = faults(write("base_config: base.yaml\nblock_size: 16\n"))
    assert fault.startswith("base.yaml:8 block_size: expected a whole number >= 1, got the text 'none'")


def test_a_missing_base_names_the_line_that_asks_for_it(write: Write, faults: Faults) -> None:
    """Goes red when a missing base is skipped, or the nearest file is not offered."""
    write(BASE, "base.yaml")
    (fault,) = faults(write("device: cpu\nbase_config: bass.yaml\n"))
    assert fault.startswith("mine.yaml:2 base_config: expected a readable profile file, got bass.yaml: No such file")
    assert fault.endswith("did you mean 'base.yaml'?")


def test_a_missing_file_is_named(tmp_path: Path, faults: Faults) -> None:
    """Goes red when a path that leads nowhere falls back to something else."""
    assert faults(tmp_path / "gone" / "x.yaml") == [
        "profile: expected a readable profile file, got gone/x.yaml: No such file or directory"
    ]
    assert faults(tmp_path / ".")[0].startswith("profile: expected a readable profile file")


def test_a_cycle_of_bases_is_refused(write: Write, faults: Faults) -> None:
    """Goes red (by recursion) when a file may be its own base, directly or by others."""
    write("base_config: two.yaml\n", "one.yaml")
    path = write("base_config: sub/../one.yaml\n", "two.yaml")
    write("", "sub/empty.yaml")
    assert faults(path) == [
        "sub/../one.yaml:1 base_config: expected a base_config that does not lead back to itself, "
        "got two.yaml -> one.yaml -> two.yaml"
    ]


def test_a_base_must_be_a_path(write: Write, faults: Faults) -> None:
    """Goes red when `base_config:` without a value, or with a list of files, is passed over."""
    for value, got in (("", "null"), (" [a.yaml]", "a list"), (" 3", "3")):
        assert faults(write(f"base_config:{value}\n")) == [
            f"mine.yaml:1 base_config: expected the path of a profile, relative to this file, got {got}"
        ]


def test_the_command_line_lies_on_top(write: Write) -> None:
    """Goes red when an override loses to a file, or a dotted key replaces its map."""
    overrides = {
        "max_num_seqs": "2",
        "default_sampling_params.temperature": "1",
        "subtalker_sampling_params": "{top_k: 3, do_sample: false}",
        "subtalker_sampling_params.top_k": "4",
    }
    profile = load_profile(write(BASE), overrides)
    assert profile.max_num_seqs == 2
    assert profile.default_sampling_params.temperature == 1.0
    assert profile.default_sampling_params.top_k == 20
    assert profile.subtalker_sampling_params.top_k == 4
    assert profile.subtalker_sampling_params.do_sample is False


def test_the_command_line_is_held_to_the_same_rules(write: Write, faults: Faults) -> None:
    """Goes red when an override passes unchecked, or its fault does not say where it came from."""
    overrides = {
        "max_num_seq": "2",
        "block_size": "true",
        "device": "[",
        "base_config": "other.yaml",
        "default_sampling_params": "{top_q: 1}",
    }
    assert faults(write(BASE), overrides) == [
        "command line max_num_seq: expected a known key, got the unknown key 'max_num_seq'; "
        "did you mean 'max_num_seqs'?",
        "command line block_size: expected a whole number >= 1, got true",
        "command line device: expected a YAML value, got '['",
        "command line base_config: expected a known key, got the unknown key 'base_config'; only a file names its base",
        "command line default_sampling_params.top_q: expected a known key, got the unknown key "
        "'default_sampling_params.top_q'; did you mean 'default_sampling_params.top_p'?",
    ]

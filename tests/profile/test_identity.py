"""A profile by name, as stored with results, and its hash."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from tests.profile.conftest import Faults, Write
from ttsbench.profile import load_profile, shipped_profiles
from ttsbench.profile.types import KEYS

FUSED = "pipeline: qwen3_tts_fused\ntalker_stream_decode: true\n"


@pytest.mark.parametrize("name", sorted(shipped_profiles()))
def test_a_shipped_profile_loads_by_its_bare_name(name: str) -> None:
    """Goes red when a file in profiles/ has a fault, or bare names are looked for in the working directory."""
    profile = load_profile(name)
    assert profile.name == name
    assert profile == load_profile(shipped_profiles()[name])


def test_the_two_first_profiles_ship() -> None:
    """Goes red when profiles/ is not found, or a capacity that results are named after changes."""
    cpu, gpu = load_profile("qwen3_tts_fused_cpu"), load_profile("qwen3_tts_fused_single_gpu")
    assert (cpu.device, cpu.dtype, cpu.max_num_seqs) == ("cpu", "float32", 8)
    assert (gpu.device, gpu.max_num_seqs, gpu.max_num_batched_tokens, gpu.max_model_len) == ("cuda", 128, 512, 4096)


def test_an_unknown_name_lists_what_ships(faults: Faults) -> None:
    """Goes red when a bare name falls back to some other profile, or the nearest one is not offered."""
    (fault,) = faults("qwen3_tts_fused_cpv")
    assert "expected a shipped profile (qwen3_tts_fused_cpu, " in fault
    assert fault.endswith("did you mean 'qwen3_tts_fused_cpu'?")


def test_overrides_of_an_unknown_profile_are_checked_too(faults: Faults) -> None:
    """Goes red when a missing profile hides the faults of the command line."""
    assert [fault.split(": expected")[0] for fault in faults("nowhere", {"max_num_seq": "1"})] == [
        "profile",
        "command line max_num_seq",
    ]


def test_a_resolved_profile_is_plain_json_and_complete(write: Write) -> None:
    """Goes red when a key is missing from what a run stores, or a value needs this package to be read back."""
    profile = load_profile(write(FUSED + "text_layout: streaming\n"))
    resolved = profile.resolved()
    assert json.loads(json.dumps(resolved)) == resolved
    assert type(resolved["text_layout"]) is str
    flat = {f"{key}.{leaf}" for key, value in resolved.items() if isinstance(value, dict) for leaf in value}
    flat |= {key for key, value in resolved.items() if not isinstance(value, dict)}
    assert flat == KEYS.keys() | {"name"}


def test_a_resolved_profile_loads_back(write: Write) -> None:
    """Goes red when what a run stores cannot be run again: a stored value that its own rule refuses."""
    resolved = load_profile("qwen3_tts_fused_cpu").resolved()
    name = resolved.pop("name")
    again = load_profile(write(json.dumps(resolved), f"{name}.yaml"))
    assert again == load_profile("qwen3_tts_fused_cpu")


def test_the_hash_is_of_the_settings_alone(write: Write, tmp_path: Path) -> None:
    """Goes red when name, place, order, comments or spelled-out defaults enter the hash, or a value does not."""
    one = load_profile(write(FUSED + "default_sampling_params: {temperature: 1}\n", "one.yaml"))
    two = load_profile(
        write("# the same\ndefault_sampling_params: {temperature: 1.0}\nblock_size: 16\n" + FUSED, "two.yaml")
    )
    three = load_profile(write(FUSED + "default_sampling_params: {temperature: 1.5}\n", "three.yaml"))
    assert one.sha256 == two.sha256 != three.sha256
    assert len(one.sha256) == 64


def test_null_and_zero_have_different_hashes(write: Write) -> None:
    """Goes red when an unset value is stored as 0 or 0 as unset."""
    unset = load_profile(write(FUSED))
    zero = load_profile(write(FUSED), {"default_sampling_params.top_k": "0"})
    assert unset.sha256 != zero.sha256


def test_a_profile_is_frozen(write: Write) -> None:
    """Goes red when a loaded profile can be changed after it was checked and hashed."""
    profile = load_profile(write(FUSED))
    with pytest.raises(FrozenInstanceError):
        profile.max_num_seqs = 9  # type: ignore[misc]

"""Names of checkpoints: the embedded one, a folder, a hub id, and an error that says what to type for anything else."""

from __future__ import annotations

import hashlib
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

from ttsbench.assets import asset_folder
from ttsbench.core import InvalidInput
from ttsbench.models.source import EMBEDDED, checkpoint_hashes, resolve_checkpoint

HUB_ID = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hub ids that were asked for; the hub itself cannot be reached."""
    asked = []

    def offline(name: str) -> str:
        asked.append(name)
        raise OfflineModeIsEnabled("Cannot reach the hub.\nSet another mode.")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    return asked


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_name_is_its_folder(name: str, no_network: list[str]) -> None:
    assert resolve_checkpoint(name) == asset_folder(name)
    assert (resolve_checkpoint(name) / "config.json").is_file()
    assert not no_network


def test_a_folder_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[str]) -> None:
    """Absolute, relative, under the home folder, and of the form of a hub id: what lies here is never fetched."""
    (tmp_path / "Qwen" / "mine").mkdir(parents=True)
    assert resolve_checkpoint(str(tmp_path)) == tmp_path
    monkeypatch.chdir(tmp_path)
    assert resolve_checkpoint("Qwen/mine") == Path("Qwen/mine")
    assert resolve_checkpoint("./Qwen") == Path("Qwen")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_checkpoint("~/Qwen/mine") == tmp_path / "Qwen" / "mine"
    assert not no_network


def test_a_hub_id_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name: str(tmp_path / name))
    assert resolve_checkpoint(HUB_ID) == tmp_path / HUB_ID


@pytest.mark.parametrize(
    "failure",
    [
        OfflineModeIsEnabled("Cannot reach the hub.\nSet another mode."),
        LocalEntryNotFoundError("Cannot reach the hub.\nCheck your connection."),
        ValueError("Cannot reach the hub."),
        type("ProxyError", (Exception,), {})("Cannot reach the hub."),
        TimeoutError(),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_hub_that_fails_is_invalid_input(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the library lets through, also network errors of a library below it and errors without a message."""

    def fail(name: str) -> str:
        raise failure

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(InvalidInput) as caught:
        resolve_checkpoint(HUB_ID)
    (problem,) = caught.value.problems
    assert problem.where == f"model {HUB_ID!r}"
    assert problem.got.startswith(f"{type(failure).__name__}: ")
    assert "\n" not in problem.got
    assert "the path of a downloaded folder" in problem.hint
    assert caught.value.__cause__ is failure


@pytest.mark.parametrize(
    "name",
    [
        "",
        "tinny",
        "/no/such/folder",
        "./no/such",
        "~nobody-of-that-name/x",
        "a/b/c",
        "https://example.com/a/b",
        "nul\0byte",
        "x" * 5000,
    ],
)
def test_nonsense_is_an_error_that_lists_the_choices(name: str, no_network: list[str]) -> None:
    """And it never reaches for the network. To break it: ask `Path(name)`, whose empty form is the current folder."""
    with pytest.raises(InvalidInput) as caught:
        resolve_checkpoint(name)
    (problem,) = caught.value.problems
    assert problem.got == repr(name)
    assert all(word in problem.hint for word in ("folder", "hub id", *EMBEDDED))
    assert not no_network


def test_a_file_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[str]) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "model.safetensors").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="a checkpoint folder"):
        resolve_checkpoint("some/model.safetensors")
    assert not no_network


def test_hashes_cover_what_shapes_the_output(tmp_path: Path) -> None:
    """Weights, configs and tokenizer files of both folders, by their path; not the prose beside them."""
    (tmp_path / "speech_tokenizer").mkdir()
    contents = {"config.json": b"{}", "merges.txt": b"a b", "speech_tokenizer/model.safetensors": b"\0" * 9}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "README.md").write_text("prose")
    before = checkpoint_hashes(tmp_path)
    assert before == {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    (tmp_path / "merges.txt").write_bytes(b"a c")
    changed = {name for name, digest in checkpoint_hashes(tmp_path).items() if digest != before[name]}
    assert changed == {"merges.txt"}

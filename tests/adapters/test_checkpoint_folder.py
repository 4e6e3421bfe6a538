"""What a model name leads to, before any weight is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.harness import CUSTOM_VOICE
from ttsbench.adapters.checkpoint_folder import checkpoint_config
from ttsbench.adapters.faults import attempt
from ttsbench.core import InvalidInput, Problem
from ttsbench.models.qwen3_tts.config import ModelType


def test_all_that_a_folder_lacks_is_told_at_once(tmp_path: Path) -> None:
    """Goes red when a half-downloaded checkpoint has to be mended one file at a time."""
    folder = tmp_path / "half"
    shutil.copytree(CUSTOM_VOICE, folder)
    for path in (folder, folder / "speech_tokenizer"):
        path.chmod(0o755)
    for name in ("config.json", "merges.txt", "model.safetensors"):
        (folder / name).unlink()
        (folder / "speech_tokenizer" / name).unlink(missing_ok=True)
    with pytest.raises(InvalidInput) as caught:
        checkpoint_config(str(folder))
    text = str(caught.value)
    assert len(caught.value.problems) == 5
    for place in ("config.json", "model.safetensors"):
        assert f"{folder / place}: expected" in text
        assert f"{folder / 'speech_tokenizer' / place}: expected" in text
    assert f"{folder}: expected vocab.json and merges.txt, or tokenizer.json" in text


def test_a_whole_folder_says_what_it_serves() -> None:
    """Goes red when a complete checkpoint is refused, or taken for another kind."""
    config = checkpoint_config(str(CUSTOM_VOICE))
    assert config.model_type is ModelType.CUSTOM_VOICE
    assert list(config.speakers) == ["serena", "vivian", "eric"]


def test_an_unreachable_hub_is_one_clear_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goes red when a network error comes through as a traceback, or does not name the id."""
    import huggingface_hub

    def unreachable(name: str) -> str:
        raise ConnectionError(f"cannot reach the hub for {name}\nand a page of details")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(InvalidInput) as caught:
        checkpoint_config("some-owner/some-voice")
    assert len(caught.value.problems) == 1
    assert "model 'some-owner/some-voice'" in str(caught.value)
    assert "ConnectionError: cannot reach the hub for some-owner/some-voice; check the id" in str(caught.value)


def test_attempts_collect_faults_and_nothing_else() -> None:
    """Goes red when an unexpected error is swallowed as if it were invalid input, or a fault is lost."""
    problems = [Problem("a", "b", "c")]

    def faulty() -> int:
        raise InvalidInput([Problem("d", "e", "f"), Problem("g", "h", "i")])

    def broken() -> int:
        raise ValueError("a bug")

    assert attempt(problems, faulty) is None
    assert [problem.where for problem in problems] == ["a", "d", "g"]
    assert attempt(problems, lambda: 0) == 0
    with pytest.raises(ValueError, match="a bug"):
        attempt(problems, broken)

"""Every number of the model against the official package's, at toy sizes in float32 (golden files, see scripts/oracle).

To see it go red: rotate adjacent pairs instead of halves in `transformer.rotate`, drop the q norm, read predictor
table j for code j, attach the codec bos to the header, or swap instruct and role. Each was tried.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch

from tests.models.qwen3_tts import exactness
from tests.models.qwen3_tts.exactness import GROUPS, Check
from ttsbench.assets import asset_folder
from ttsbench.models.source import EMBEDDED

LARGEST_ROW_ERROR = 1e-4
"""Float32 rounding in another order of summation gives up to 5e-6 here; a wrong formula gives 1e-2 and more."""


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_equals_the_official_package(group: Callable[[], Iterator[Check]]) -> None:
    checks = list(group())
    wrong = [c for c in checks if not c.error <= (0.0 if "codes" in c.what else LARGEST_ROW_ERROR)]
    assert checks
    assert not wrong


def test_goldens_cover_every_mode() -> None:
    """Each task in both text layouts; languages auto, named and dialect; instruct kept and dropped; references of each
    length.
    """
    names = {case["name"] for case in exactness.cases()}
    for layout in ("streaming", "non_streaming"):
        for mode in (
            "custom_voice.{}.serena.auto.plain",
            "custom_voice.{}.serena.english.instruct",
            "custom_voice.{}.eric.auto.plain",
            "custom_voice.{}.eric.chinese.plain",
            "custom_voice.{}.eric.english.plain",
            "custom_voice_0b6.{}.vivian.english.instruct_dropped",
            "voice_design.{}.auto.instruct",
            "base.{}.x_vector.auto",
            "base.{}.icl_text_longer.english",
            "base.{}.icl_ref_longer.auto",
            "base.{}.icl_equal.english",
        ):
            assert mode.format(layout) in names


@pytest.mark.parametrize("name", EMBEDDED)
def test_goldens_of_embedded_checkpoints_are_of_the_shipped_files(name: str) -> None:
    """Each spoken to its own end. Red when a checkpoint is replaced and its goldens are not: run
    scripts/oracle/tiny_greedy.py.
    """
    folder, stored = asset_folder(name), json.loads((exactness.GOLDEN / f"{name}_greedy.json").read_text())
    for file, sha256 in stored["checkpoint_sha256"].items():
        assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == sha256, file
    assert all(entry["finished"] for entry in stored["utterances"])


def test_goldens_of_tiny_cover_its_voices() -> None:
    """Each voice of the config in each language and text layout."""
    utterances = exactness.embedded_utterances("tiny")
    spoken = [(entry["voice"], entry["language"], entry["non_streaming_mode"]) for entry in utterances]
    voices = exactness.toy("tiny").config.speakers
    assert sorted(spoken) == sorted(product(voices, ("english", "auto"), (False, True)))


def test_goldens_of_tiny_base_cover_each_way_of_cloning() -> None:
    """In each language and text layout, every time with two clips or more."""
    ways = Counter(
        (exactness.cloning(entry), entry["language"], entry["non_streaming_mode"])
        for entry in exactness.embedded_utterances("tiny-base")
    )
    assert ways == dict.fromkeys(product(("speaker vector", "in context"), ("english", "auto"), (False, True)), 2)


def test_the_page_has_a_row_for_each_embedded_checkpoint() -> None:
    """Red when a checkpoint is added and scripts/exactness.py is not run."""
    page = (exactness.GOLDEN.parents[1] / "docs" / "exactness.md").read_text(encoding="utf-8")
    assert all(f"| greedy codes of {name} | 16 | equal |" in page for name in EMBEDDED)


def test_a_small_fault_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself can fail: the reference's sum of code embeddings without its last codebook is caught."""
    talker = exactness.toy("toy-base").model.talker
    monkeypatch.setattr(talker, "embed_frames", lambda codes: type(talker).embed_frames(talker, codes[:, :-1]))
    worst = max(check.error for check in exactness.check_prompts() if "icl" in check.case)
    assert worst > 100 * LARGEST_ROW_ERROR


def test_row_error_is_relative_per_row() -> None:
    theirs = torch.tensor([[100.0, 0.0], [1.0, 0.5]])
    assert exactness.row_error(theirs + torch.tensor([[0.0, 0.0], [0.0, 0.1]]), theirs) == pytest.approx(0.1)
    assert exactness.row_error(theirs[:1], theirs) == float("inf")

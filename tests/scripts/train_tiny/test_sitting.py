"""A sitting is two lanes of pieces: what each waits for exists, and nothing is made twice."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import pytest

from scripts.train_tiny import sitting
from scripts.train_tiny.sitting import Piece, Pieces, Sitting


def arguments(tmp_path: Path, **other: Any) -> argparse.Namespace:
    given: dict[str, Any] = {
        "text": Path("T"), "teacher": Path("K"), "scratch": tmp_path / "s", "run": tmp_path / "r", "part": 1.0,
        "voices": 50, "named_hours": 1.0, "many_hours": 1.0, "reference_hours": 1.0, "decoder_s": 1.0, "encoder_s": 1.0,
        "speaker_s": 1.0, "codec": None, "talker": "", "second": "--seed 1", "tune_decoder_s": 0.0,
        "tune_encoder_s": 0.0, "reserve_s": 0.0,
    }  # fmt: skip
    return argparse.Namespace(**(given | other))


def lanes(args: argparse.Namespace) -> tuple[list[Piece], list[Piece]]:
    pieces = Pieces(args, Sitting(args.run, time.time() + 60))
    return sitting.plan(args, pieces) if args.codec is None else sitting.plan_with_codec(args, pieces)


def written(args: argparse.Namespace, piece: Piece) -> set[Path]:
    """Files that exist once the piece has ended."""
    weights = {"train_decoder": "decoder", "train_encoder": "encoder", "fit_codes": "codes", "train_speaker": "speaker"}
    found = {args.run / "logs" / f"{piece.name}.done"}
    return found | ({args.run / f"{weights[piece.module]}.safetensors"} if piece.module in weights else set())


@pytest.mark.parametrize(
    "other",
    [{}, {"codec": Path("C")}, {"codec": Path("C"), "tune_encoder_s": 2.0, "tune_decoder_s": 2.0}],
    ids=["all", "codec kept", "codec tuned"],
)
def test_no_lane_waits_for_ever(tmp_path: Path, other: dict[str, Any]) -> None:
    """Let the lanes run in any order, each piece once what it needs is there: both come to their end.

    Red when a piece needs what a later one of its own lane makes, or what the sitting does not make at all.
    """
    args = arguments(tmp_path, **other)
    waiting = [list(lane) for lane in lanes(args)]
    there = {Path("C") / f"{name}.safetensors" for name in ("codes", "decoder", "encoder")} if args.codec else set()
    while ready := [lane for lane in waiting if lane and set(lane[0].needs) <= there]:
        there |= written(args, ready[0].pop(0))
    assert waiting == [[], []], [lane[0].name for lane in waiting if lane]
    names = [piece.name for lane in lanes(args) for piece in lane]
    assert len(set(names)) == len(names), "a piece's log and its mark are by name"


def test_with_a_codec_both_gpus_speak_and_train_one_talker_each(tmp_path: Path) -> None:
    """Red when both lanes make the same shards, or the second training writes over the first."""
    first, second = lanes(arguments(tmp_path, codec=Path("C"), second="--seed 7 --peak 3e-3"))
    shares = [[str(x) for p in lane if p.module == "synthesize" for x in p.arguments()] for lane in (first, second)]
    assert ["0/2" in shares[0], "1/2" in shares[0], "0/2" in shares[1], "1/2" in shares[1]] == [
        True,
        False,
        False,
        True,
    ]
    talkers = [[str(x) for x in lane[-1].arguments()] for lane in (first, second)]
    assert [t[t.index("--name") + 1] for t in talkers] == ["talker-tiny-base", "talker-tiny-base-2"]
    assert "--seed" not in talkers[0]
    assert talkers[1][talkers[1].index("--seed") + 1] == "7"
    assert not [p.name for p in (*first, *second) if p.module in ("fit_codes", "train_decoder", "train_encoder")]


def test_a_tuned_encoder_is_the_one_that_hears(tmp_path: Path) -> None:
    """Red when references are coded by the encoder that was given: the talker would learn what it will not meet."""
    args = arguments(tmp_path, codec=Path("C"), tune_encoder_s=2.0)
    heard = next(piece for piece in lanes(args)[1] if piece.name == "codes-heard")
    assert args.run / "encoder.safetensors" in heard.arguments()
    start = next(piece for piece in lanes(args)[1] if piece.name == "encoder").arguments()
    assert start[start.index("--start") + 1] == Path("C") / "encoder.safetensors"

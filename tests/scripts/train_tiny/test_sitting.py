"""A sitting is two lanes of pieces: what each waits for exists, nothing is made twice, no option is idle."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pytest

from scripts.train_tiny import sitting
from scripts.train_tiny.corpus import KINDS
from scripts.train_tiny.lanes import Piece, Sitting
from scripts.train_tiny.sitting import Pieces


def arguments(tmp_path: Path, *more: object) -> argparse.Namespace:
    folders = ["--text", "T", "--teacher", "K", "--scratch", tmp_path / "s", "--run", tmp_path / "r"]
    return sitting.arguments([str(word) for word in (*folders, *more)])


def lanes(args: argparse.Namespace) -> tuple[list[Piece], list[Piece]]:
    pieces = Pieces(args, Sitting(args.run, time.time() + 60))
    return sitting.plan(args, pieces) if args.codec is None else sitting.plan_with_codec(args, pieces)


def written(args: argparse.Namespace, piece: Piece) -> set[Path]:
    """Files that exist once the piece has ended."""
    weights = {"train_decoder": "decoder", "train_encoder": "encoder", "fit_codes": "codes", "train_speaker": "speaker"}
    found = {args.run / "logs" / f"{piece.name}.done"}
    return found | ({args.run / f"{weights[piece.module]}.safetensors"} if piece.module in weights else set())


@pytest.mark.parametrize("more", [[], ["--codec", "C"]], ids=["new codec", "codec kept"])
def test_no_lane_waits_for_ever(tmp_path: Path, more: list[object]) -> None:
    """Let the lanes run in any order, each piece once what it needs is there: both come to their end.

    Red when a piece needs what a later one of its own lane makes, or what the sitting does not make at all.
    """
    args = arguments(tmp_path, *more)
    waiting = [list(lane) for lane in lanes(args)]
    there = {Path("C") / f"{name}.safetensors" for name in ("codes", "decoder", "encoder")} if args.codec else set()
    while ready := [lane for lane in waiting if lane and set(lane[0].needs) <= there]:
        there |= written(args, ready[0].pop(0))
    assert waiting == [[], []], [lane[0].name for lane in waiting if lane]
    names = [piece.name for lane in lanes(args) for piece in lane]
    assert len(set(names)) == len(names), "a piece's log and its mark are by name"


def test_with_a_codec_both_gpus_speak(tmp_path: Path) -> None:
    """Red when both lanes make the same shards, or one makes them all."""
    for share, lane in zip(("0/2", "1/2"), lanes(arguments(tmp_path, "--codec", "C")), strict=True):
        speech = [piece.arguments() for piece in lane if piece.module == "synthesize"]
        assert [words[words.index("--kind") + 1] for words in speech] == sitting.MANY_VOICES
        assert {words[words.index("--part") + 1] for words in speech} == {share}


def test_each_sitting_trains_its_talker(tmp_path: Path) -> None:
    """Red when `tiny` is trained again on a codec that it was not made for, or a codec is fitted anew."""
    for more, kind in (([], "tiny"), (["--codec", "C"], "tiny-base")):
        pieces = [piece for lane in lanes(arguments(tmp_path, *more)) for piece in lane]
        assert [piece.name for piece in pieces if piece.module == "train_talker"] == [f"talker-{kind}"]
        assert (kind == "tiny") == any(piece.module == "fit_codes" for piece in pieces)


def test_a_tuned_encoder_is_the_one_that_hears(tmp_path: Path) -> None:
    """Red when references are coded by the encoder that was given: the talker would learn what it will not meet."""
    args = arguments(tmp_path, "--codec", "C")
    heard = next(piece for piece in lanes(args)[1] if piece.name == "codes-heard")
    assert args.run / "encoder.safetensors" in heard.arguments()
    start = next(piece for piece in lanes(args)[1] if piece.name == "encoder").arguments()
    assert start[start.index("--start") + 1] == Path("C") / "encoder.safetensors"


def test_with_a_codec_the_speaker_encoder_hears_it(tmp_path: Path) -> None:
    """The codes of the references, their echoes, and then the encoder on the other lane.

    Red when `echoes` stands before the codes or behind the tuning, or the encoder does not wait or does not hear.
    """
    args = arguments(tmp_path, "--codec", "C")
    first, second = lanes(args)
    trained = [piece.name for piece in second if piece.module != "synthesize"]
    assert trained == ["codes-many", "echoes", "encoder", "codes-heard", "decoder"]
    echoes = next(piece for piece in second if piece.name == "echoes")
    assert Path("C") / "decoder.safetensors" in echoes.arguments()
    speaker = next(piece for piece in first if piece.name == "speaker")
    assert args.run / "logs" / "echoes.done" in speaker.needs
    heard = speaker.arguments()
    assert heard[heard.index("--echoes") + 1] == "reference"


@pytest.mark.parametrize(("more", "kinds"), [([], ["named"]), (["--codec", "C"], sitting.MANY_VOICES)])
def test_shards_are_coded_once(tmp_path: Path, more: list[object], kinds: list[str]) -> None:
    """Red when both lanes code the same kind: one of them works for nothing."""
    coded = [
        kind
        for lane in lanes(arguments(tmp_path, *more))
        for piece in lane
        if piece.module == "encode_shards" and "--codes" in piece.arguments()
        for kind in KINDS
        if kind in piece.arguments()
    ]
    assert sorted(coded) == sorted(kinds)


@pytest.mark.parametrize(
    "more",
    [
        ["--speaker-s", 90],
        ["--tune-decoder-s", 1000],
        ["--tune-encoder-s", 60],
        ["--codec", "C", "--named-hours", 100],
        ["--codec", "C", "--decoder-s", 330],
        ["--codec", "C", "--encoder-s", 80],
    ],
)
def test_an_option_that_would_do_nothing_ends_the_run(
    tmp_path: Path, more: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its default, written out, too. Red when an option is in the wrong list, or is compared with its default."""
    with pytest.raises(SystemExit):
        arguments(tmp_path, *more)
    said = capsys.readouterr().err.splitlines()[-1]
    option = more[2] if "--codec" in more else more[0]
    assert said.endswith(f"{option}: {'nothing to do with' if '--codec' in more else 'needs'} --codec")


def test_options_that_are_left_out_get_their_defaults(tmp_path: Path) -> None:
    """Red when a plan meets None in place of a number."""
    args = arguments(tmp_path)
    assert (args.named_hours, args.decoder_s, args.encoder_s, args.minutes) == (100, 330, 80, 23)
    args = arguments(tmp_path, "--codec", "C")
    assert (args.speaker_s, args.tune_decoder_s, args.tune_encoder_s) == (90, 1000, 60)

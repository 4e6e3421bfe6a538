"""What needs GPUs, in two sittings on two of them: the codec and `tiny`, then `tiny-base`.

    python -m scripts.train_tiny.sitting --text TEXT --teacher TEACHER --scratch SCRATCH --run RUN1 --minutes 23
    python -m scripts.train_tiny.sitting ... --run RUN2 --minutes 27 --codec RUN1

The first one makes speech, codes, the codec and the talker of `tiny`. The second one, with `--codec`, the RUN folder
of the first or any other with codes, decoder and encoder, makes the speaker encoder and the talker of `tiny-base`.
Meanwhile it accustoms encoder and decoder to the many voices; the codes stay what they are.

Speech is large and is read where it was made, so the pieces form two lanes, one a GPU, that share only folders:
SCRATCH for speech and codes, RUN for weights, logs and `times.json`. The talkers train until the time is up. A
sitting that is started again skips the pieces that are done, and each piece goes on from its last checkpoint. `--part
0.1` makes a tenth of the speech and of the training, to try a machine. With one GPU both lanes share it and need
about twice the time.
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from scripts.train_tiny.config import Kind
from scripts.train_tiny.lanes import Failed, Piece, Sitting
from scripts.train_tiny.synthesize import VOICES

MANY_VOICES = ["many", "reference"]
"""Kinds of shards that cloning learns from."""
ECHOED = ["reference"]
"""Kinds that the speaker encoder also hears through a given codec."""
TUNING_RATES = {"decoder": 3e-4, "encoder": 1e-3}
"""Highest learning rates of a codec that is trained already."""
OF_A_NEW_CODEC = {"named_hours": 100.0, "decoder_s": 330.0, "encoder_s": 80.0}
OF_A_KEPT_CODEC = {"speaker_s": 90.0, "tune_decoder_s": 1000.0, "tune_encoder_s": 60.0}
"""Options that only one of the two plans heeds, with what they are when left out."""


class Pieces:
    """The commands of a sitting, with the folders and sizes that were asked for."""

    def __init__(self, args: argparse.Namespace, sitting: Sitting) -> None:
        self._args, self._sitting = args, sitting
        self.codec: Path = args.codec or args.run
        """Where the fit is, or will be."""

    def done(self, name: str) -> Path:
        """What exists once the piece `name` has ended well."""
        return Path(self._args.run / "logs" / f"{name}.done")

    def speech(self, kind: str, seconds: float, share: str = "") -> Piece:
        """`share` i/n: every n-th shard of the hours asked for, from i on."""
        args = self._args
        hours = getattr(args, f"{kind}_hours") * args.part
        found: list[object] = ["--text", args.text, "--teacher", args.teacher, "--out", args.scratch, "--kind", kind]
        found += ["--hours", hours, "--shard-hours", max(0.25, 4 * args.part), "--voices", args.voices]
        found += ["--seconds", seconds * args.part + 20, *(["--part", share] if share else [])]
        return Piece(f"speech-{kind}" + (f"-{share[0]}" if share else ""), "synthesize", lambda: found)

    def codes(self, name: str, kinds: list[str], needs: tuple[Path, ...] = ()) -> Piece:
        """Constructed codes."""
        fit = self.codec / "codes.safetensors"
        found = ["--scratch", self._args.scratch, "--kinds", *kinds, "--codes", fit]
        return Piece(name, "encode_shards", lambda: found, (fit, *needs))

    def heard(self) -> Piece:
        """The encoder's codes of all that may be a reference."""
        encoder = self._args.run / "encoder.safetensors"
        found = ["--scratch", self._args.scratch, "--kinds", *MANY_VOICES, "--encoder", encoder]
        return Piece("codes-heard", "encode_shards", lambda: found, (encoder,))

    def coder(self, name: str, seconds: float, *extra: object) -> Piece:
        """`decoder` or `encoder` in training."""
        args = self._args
        found: list[object] = [
            "--scratch",
            args.scratch,
            "--codes",
            self.codec / "codes.safetensors",
            "--run",
            args.run,
        ]
        return Piece(name, f"train_{name}", lambda: [*found, "--seconds", seconds * args.part, *extra])

    def tuned(self, name: str, seconds: float, *extra: object) -> Piece:
        """`decoder` or `encoder` of the given codec trained on, on the speech of many voices."""
        start = self.codec / f"{name}.safetensors"
        return self.coder(
            name, seconds, "--kinds", *MANY_VOICES, "--start", start, "--peak", TUNING_RATES[name], *extra
        )

    def echoes(self) -> Piece:
        """References again, as the decoder of the given codec speaks their codes."""
        decoder = self.codec / "decoder.safetensors"
        found = ["--scratch", self._args.scratch, "--kinds", *ECHOED, "--decoder", decoder]
        return Piece("echoes", "echo_shards", lambda: found, (decoder,))

    def speaker(self, needs: tuple[Path, ...]) -> Piece:
        """The speaker encoder, which hears the echoes too: the voices that it will judge are spoken by the codec."""
        args = self._args
        found: list[object] = ["--teacher", args.teacher, "--scratch", args.scratch, "--out", args.run]
        found += ["--kinds", *MANY_VOICES, "--seconds", args.speaker_s * args.part, "--echoes", *ECHOED]
        return Piece("speaker", "train_speaker", lambda: found, needs)

    def talker(self, kind: Kind, *extra: object, needs: tuple[Path, ...] = ()) -> Piece:
        """A talker that trains until the time is up."""
        args = self._args
        found: list[object] = ["--text", args.text, "--scratch", args.scratch, "--out", args.run, "--compile"]
        found += ["--kind", kind, *shlex.split(args.talker), *extra]

        def until_the_end() -> list[object]:
            return [*found, "--seconds", max(10, round(self._sitting.left_s - args.reserve_s))]

        return Piece(f"talker-{kind}", "train_talker", until_the_end, needs)

    def cloning_talker(self, needs: tuple[Path, ...]) -> Piece:
        speaker = self._args.run / "speaker.safetensors"
        extra = ("--speaker", speaker, "--lengths", 64, 96, 128, 192, 256)
        return self.talker(Kind.BASE, *extra, needs=(speaker, *needs))


def plan(args: argparse.Namespace, pieces: Pieces) -> tuple[list[Piece], list[Piece]]:
    """The two lanes: named speech and `tiny`; many voices and the codec."""
    fit = ["--scratch", args.scratch, "--out", args.run / "codes.safetensors"]
    named_lane = [
        pieces.speech("named", 400),
        pieces.codes("codes-named", ["named"]),
        pieces.talker(Kind.TINY),
    ]
    voice_lane = [
        pieces.speech("many", 230),
        pieces.speech("reference", 60),
        Piece("codes-fit", "fit_codes", lambda: fit),
        pieces.coder("decoder", args.decoder_s),
        pieces.coder("encoder", args.encoder_s),
    ]
    return named_lane, voice_lane


def plan_with_codec(args: argparse.Namespace, pieces: Pieces) -> tuple[list[Piece], list[Piece]]:
    """Both lanes make speech; then one trains the speaker encoder and `tiny-base`, the other the codec."""
    spoken = tuple(pieces.done(f"speech-{kind}-{lane}") for kind in MANY_VOICES for lane in (0, 1))
    coded = (pieces.done("codes-heard"),)
    speaker = pieces.speaker((*spoken, pieces.done("echoes")))
    speech = [[pieces.speech(k, 400, f"{lane}/2") for k in MANY_VOICES] for lane in (0, 1)]
    first_lane = [*speech[0], speaker, pieces.cloning_talker(coded)]
    second_lane = [
        *speech[1],
        pieces.codes("codes-many", MANY_VOICES, spoken),
        pieces.echoes(),
        pieces.tuned("encoder", args.tune_encoder_s),
        pieces.heard(),
        pieces.tuned("decoder", args.tune_decoder_s, "--judged-from", 0.15),
    ]
    return first_lane, second_lane


def option(name: str) -> str:
    """How an attribute of the arguments is written."""
    return f"--{name.replace('_', '-')}"


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line. One that asks for what its plan does not do ends the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("text", "teacher", "scratch", "run"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=23.0, help="until the talkers stop")
    parser.add_argument("--part", type=float, default=1.0, help="of the speech and the training of the codec")
    parser.add_argument("--voices", type=int, default=VOICES)
    parser.add_argument("--many-hours", type=float, default=56.0)
    parser.add_argument("--reference-hours", type=float, default=32.0)
    parser.add_argument("--talker", default="", help="more arguments of every training of a talker")
    parser.add_argument("--reserve-s", type=float, default=45.0, help="kept for loading, capture and the last write")
    parser.add_argument("--codec", type=Path, help="folder of codes, decoder and encoder to keep")
    new = parser.add_argument_group("without --codec")
    for name, value in OF_A_NEW_CODEC.items():
        new.add_argument(option(name), type=float, help=f"left out: {value:g}")
    kept = parser.add_argument_group("with --codec alone")
    for name, value in OF_A_KEPT_CODEC.items():
        kept.add_argument(option(name), type=float, help=f"left out: {value:g}")
    args = parser.parse_args(argv)
    used, idle = OF_A_NEW_CODEC, OF_A_KEPT_CODEC
    if args.codec is not None:
        used, idle = idle, used
    if given := [option(name) for name in idle if getattr(args, name) is not None]:
        parser.error(f"{', '.join(given)}: {'nothing to do with' if args.codec is not None else 'needs'} --codec")
    for name, value in used.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


def main() -> None:
    args = arguments()
    sitting = Sitting(args.run, time.time() + 60 * args.minutes)
    pieces = Pieces(args, sitting)
    first, second = plan(args, pieces) if args.codec is None else plan_with_codec(args, pieces)
    other = "1" if torch.cuda.device_count() > 1 else "0"
    try:
        sitting.hold({"0.first": first, f"{other}.second": second})
    except Failed as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()

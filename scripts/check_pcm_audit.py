"""What the PCM audit finds of faults put into clean runs, and what it finds in the clean runs themselves.

    python -m scripts.check_pcm_audit RUN... [--clips 200] [--seed 0] [--kept as-is,pad,gain,44100] [--codec CHECKPOINT]

Prints JSON. A quarter of a run's rows are broken at a time, so that the run's own pace is learnt from broken rows too.
`found` is a finding of a fitting kind anywhere in the row, `located` one within a hop of the fault, and
`located_without_pace` one that did not need the row to be too short for its text. `--codec` names a
checkpoint folder (`tiny` for the shipped one): its codec encodes the rows and decodes them again with 25 frames left
out or repeated *before* decoding, so that the joint is smooth, and in chunks without context, as a broken engine would.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import soundfile
import soxr
from pydantic import JsonValue

from scripts.pcm_codec_faults import codec_faults
from scripts.pcm_faults import CROSSFADE_S, Broken, Fault, click, gap, replay, splice
from ttsbench.records import RequestRecord
from ttsbench.records.pcm import FaultKind, PcmFinding
from ttsbench.records.wav import to_pcm16
from ttsbench.score.pcm.audit import Heard, hear
from ttsbench.score.pcm.joints import Bars
from ttsbench.score.pcm.pace import Length, Pace, find_pace_faults
from ttsbench.score.source import RunSource

Findings = tuple[PcmFinding, ...]
PARTS = 4
"""A run's rows are broken one part at a time."""
MOST_TURNS = 3
"""Faults put into one row, one after another, where there are fewer rows than clips asked for."""
PAD_S = 1.5
WHOLE_ROW = (FaultKind.TOO_SHORT, FaultKind.TOO_LONG)
"""Findings that have no place."""
JOINT = (FaultKind.SPLICE, FaultKind.CLICK)
FAULTS: dict[str, tuple[Fault, tuple[FaultKind, ...]]] = {
    "replay of 25 frames": (replay(25), (FaultKind.REPEAT,)),
    "replay of 10 frames": (replay(10), (FaultKind.REPEAT,)),
    "replay of 3 frames": (replay(3), (FaultKind.REPEAT,)),
    "gap of 80 ms": (gap, (FaultKind.DROPOUT,)),
    "click, 0.5 to 1.5 of level": (click(0.5, 1.5), JOINT),
    "click, 0.25 to 0.5 of level": (click(0.25, 0.5), JOINT),
    "hard splice of 25 frames": (splice(25), (*JOINT, FaultKind.TOO_SHORT)),
    "hard splice of 5 frames": (splice(5), (*JOINT, FaultKind.TOO_SHORT)),
    "splice of 25 frames under a 5 ms crossfade": (splice(25, CROSSFADE_S), (*JOINT, FaultKind.TOO_SHORT)),
}


@dataclass(frozen=True, eq=False)
class Row:
    """One clean row of one run."""

    source: RunSource
    record: RequestRecord

    @cache  # noqa: B019 - rows live as long as the program
    def clean_heard(self, kept: str) -> Heard:
        """What the row says when nothing is broken."""
        return hear(*_stored(self.samples(), self.rate_hz, kept), self.hop / self.rate_hz)

    @cache  # noqa: B019
    def clean_seconds(self, kept: str) -> float:
        return Length.of(*_stored(self.samples(), self.rate_hz, kept)).sounding_s

    def samples(self) -> np.ndarray:
        data, _ = soundfile.read(self.source.folder.path / str(self.record.wav_path), dtype="float64")
        return np.asarray(data)

    @property
    def rate_hz(self) -> int:
        return self.source.manifest.engine.sample_rate_hz

    @property
    def hop(self) -> int:
        return self.source.manifest.engine.hop_samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="clean run folders")
    parser.add_argument("--clips", type=int, default=200, help="clips broken per kind of fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", default="as-is", help="how clips are stored: as-is, pad, gain, 44100; by comma")
    parser.add_argument("--codec", help="checkpoint folder for faults before decoding")
    asked = parser.parse_args()
    sources = [RunSource.open(run) for run in asked.runs]
    rows = [Row(source, record) for source in sources for _, record in source.rows() if record and record.wav_path]
    faults = FAULTS | (codec_faults(asked.codec) if asked.codec else {})
    result: dict[str, JsonValue] = {"runs": len(sources), "rows": len(rows), "seed": asked.seed}
    for kept in asked.kept.split(","):
        kinds: dict[str, JsonValue] = {"clean": clean(rows, kept)}
        for name, (fault, fitting) in faults.items():
            kinds[name] = broken(rows, fault, fitting, asked.clips, asked.seed, kept)
        result[kept] = kinds
    print(json.dumps(result, indent=1))


def clean(rows: Sequence[Row], kept: str) -> dict[str, JsonValue]:
    """Rows with any finding, but for the silence that padding is, among rows as they are."""
    alarms: Counter[str] = Counter()
    affected = 0
    for _, _, findings in _judge(rows, [(row, Broken(row.samples(), 0)) for row in rows], kept):
        kinds = {one.kind for one in findings} - ({FaultKind.SILENCE} if kept == "pad" else set())
        alarms.update(str(kind) for kind in kinds)
        affected += bool(kinds)
    return {"clips": len(rows), "rows_with_alarms": affected, "alarms": dict(alarms)}


def broken(
    rows: Sequence[Row], fault: Fault, fitting: tuple[FaultKind, ...], clips: int, seed: int, kept: str
) -> dict[str, JsonValue]:
    """Recall over `clips` faults: one in each row that offers a place, then another."""
    rng = np.random.default_rng(seed)
    judged: list[tuple[Row, Broken, Findings]] = []
    for _ in range(MOST_TURNS):
        made: list[tuple[Row, Broken]] = []
        for place in rng.permutation(len(rows)):
            if len(judged) + len(made) == clips:
                break
            one = fault(rows[place].samples(), rows[place].rate_hz, rows[place].hop, rng)
            made += [] if one is None else [(rows[place], one)]
        judged += _judge(rows, made, kept)
    return _recall(judged, fitting, PAD_S if kept == "pad" else 0.0) if judged else {"clips": 0}


def _recall(
    judged: Sequence[tuple[Row, Broken, Findings]], fitting: tuple[FaultKind, ...], pad_s: float
) -> dict[str, JsonValue]:
    found = located = alone = 0
    worst, kinds = 0.0, Counter[str]()
    for row, what, findings in judged:
        at_s, hop_s = what.at / row.rate_hz + pad_s, row.hop / row.rate_hz
        fits = [one for one in findings if one.kind in fitting]
        near = [one for one in fits if one.kind not in WHOLE_ROW and abs(one.start_s - at_s) <= hop_s]
        found += bool(fits)
        located += bool(near)
        alone += any(one.strength > 0 for one in near)
        worst = max(worst, min((abs(one.start_s - at_s) for one in near), default=0.0))
        kinds.update({str(one.kind) for one in findings})
    share = 100 / len(judged)
    return {
        "clips": len(judged),
        "found_pct": round(found * share, 1),
        "located_pct": round(located * share, 1),
        "located_without_pace_pct": round(alone * share, 1),
        "located_worst_ms": round(1000 * worst, 1),
        "rows_by_kind": dict(kinds.most_common()),
    }


def _judge(
    rows: Sequence[Row], made: Sequence[tuple[Row, Broken]], kept: str
) -> Iterator[tuple[Row, Broken, Findings]]:
    """Each broken row (a row at most once) as the audit of its run hears it, a part of a run's rows at a time."""
    for source in {id(row.source): row.source for row, _ in made}.values():
        run = [row for row in rows if row.source is source]
        ours = {row.record.row_index: (row, what) for row, what in made if row.source is source}
        for part in range(PARTS):
            some = {index: entry for index, entry in ours.items() if index % PARTS == part}
            if some:
                yield from _judge_part(run, some, kept)


def _judge_part(
    run: Sequence[Row], some: dict[int, tuple[Row, Broken]], kept: str
) -> Iterator[tuple[Row, Broken, Findings]]:
    """What `judge_pcm` does with a run, but that a clean row is heard once for all kinds of fault."""
    stored = {index: _stored(what.samples, row.rate_hz, kept) for index, (row, what) in some.items()}
    seconds = [
        Length.of(*stored[row.record.row_index]).sounding_s if row.record.row_index in some else row.clean_seconds(kept)
        for row in run
    ]
    pace = Pace.of([len(row.record.text) for row in run], seconds)
    heard: dict[int, Heard] = {}
    for index, (row, _) in some.items():
        samples, rate = stored[index]
        expected_s = None if pace is None else pace.expected_s(len(row.record.text))
        faults = find_pace_faults(Length.of(samples, rate), expected_s, pace.spread if pace else 0.0, at_limit=False)
        heard[index] = hear(samples, rate, row.hop / row.rate_hz, faults)
    others = [row.clean_heard(kept) for row in run if row.record.row_index not in some]
    bars = Bars.of([one.joints for one in [*others, *heard.values()] if one.joints is not None])
    yield from ((row, what, heard[index].findings(bars)) for index, (row, what) in some.items())


def _stored(samples: np.ndarray, rate: int, kept: str) -> tuple[np.ndarray, int]:
    """Samples as a 16-bit file holds them, and its rate."""
    if kept == "gain":
        samples = samples * 0.5
    elif kept == "pad":
        samples = np.pad(samples, round(PAD_S * rate))
    elif kept != "as-is":
        samples, rate = soxr.resample(samples, rate, int(kept)), int(kept)
    return to_pcm16(samples) / 32768.0, rate


if __name__ == "__main__":
    main()

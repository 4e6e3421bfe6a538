"""Everything scores.json says of a run, as sections of plain tables."""

from __future__ import annotations

from pathlib import Path

from ttsbench.records import RunManifest, ScoreSummary, read_requests
from ttsbench.report.audits import frames_section, pcm_section
from ttsbench.report.deltas import deltas_section
from ttsbench.report.ledger import ledger_section
from ttsbench.report.section import Section
from ttsbench.report.speaker import speaker_section
from ttsbench.report.stale import stale_protocols
from ttsbench.report.timing import timing_section
from ttsbench.report.wer import wer_section


def score_table(run_dir: Path, summary: ScoreSummary, manifest: RunManifest) -> list[Section]:
    """The ledger, then a section for each protocol and scorer; one that was not scored stands in the ledger only.

    Raises RecordError for requests or per-row files that cannot be read.
    """
    log = read_requests(run_dir)
    ids = {index: record.utterance_id for index, record in log.rows.items()}
    stale = stale_protocols(run_dir, summary.wer)
    sections = [ledger_section(summary, manifest, log)]
    sections += [wer_section(wer, stale.get(name), ids) for name, wer in summary.wer.items()]
    deltas = deltas_section(run_dir, summary, stale)
    sections += [] if deltas is None else [deltas]
    sections += [] if summary.speaker is None else [speaker_section(summary.speaker)]
    sections += [] if summary.frames is None else [frames_section(summary.frames)]
    sections += [] if summary.pcm is None else [pcm_section(summary.pcm)]
    sections += [] if summary.timing is None else [timing_section(summary.timing)]
    return sections

"""Whether a WER section is of what lies in the run folder now; figures of other records must not pass as its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ttsbench.records import RunFolder, WerSummary, read_requests, sha256_of

OTHER_REQUESTS = "requests.jsonl has changed since it was scored"
NO_ROWS = "its per-row file is gone"
OTHER_ROWS = "its per-row file is not the one that it was made with"


def stale_protocols(run_dir: Path, wer: Mapping[str, WerSummary]) -> dict[str, str]:
    """Why, by protocol, for those that are stale. Raises RecordError for requests that cannot be read."""
    requests_sha256 = read_requests(run_dir).sha256
    checked = {name: _why_stale(run_dir, name, summary, requests_sha256) for name, summary in wer.items()}
    return {name: why for name, why in checked.items() if why is not None}


def _why_stale(run_dir: Path, protocol_id: str, summary: WerSummary, requests_sha256: str) -> str | None:
    rows = RunFolder(run_dir).wer_rows(protocol_id)
    if summary.requests_sha256 != requests_sha256:
        return OTHER_REQUESTS
    if not rows.is_file():
        return NO_ROWS
    return None if sha256_of(rows.read_bytes()) == summary.rows_sha256 else OTHER_ROWS

"""Write the table of docs/exactness.md: our model against the official package's golden files.

    python -m scripts.exactness

Replaces the part of the page between its two markers.
"""

from __future__ import annotations

import datetime
import json
import platform
from pathlib import Path

import torch

from tests.models.qwen3_tts.exactness import GOLDEN, GROUPS, Check

PAGE = Path(__file__).parents[1] / "docs" / "exactness.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def main() -> None:
    torch.set_num_threads(1)
    checks: dict[str, list[Check]] = {}
    for group in GROUPS:
        for check in group():
            checks.setdefault(check.what, []).append(check)
    lines = ["| what | cases | largest error | where |", "| --- | --- | --- | --- |"]
    for what, all_of_it in checks.items():
        worst = max(all_of_it, key=lambda check: check.error)
        error = "equal" if worst.error == 0 else f"{worst.error:.1e}"
        lines.append(f"| {what} | {len(all_of_it)} | {error} | {worst.case if worst.error else ''} |")
    packages = json.loads((GOLDEN / "manifest.json").read_text())["packages"]
    made = ", ".join(f"{name} {version}" for name, version in packages.items())
    ours = f"torch {torch.__version__}, Python {platform.python_version()}, {datetime.date.today()}"
    lines += ["", f"Ours: {ours}. Goldens: {made}."]
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{chr(10).join(lines)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

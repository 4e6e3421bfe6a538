"""Puts the tables of an evaluation into the model cards of checkpoints, between their markers.

    python -m scripts.train_tiny.fill_card EVAL/report.md FOLDER...

The tables are those of each folder's name: `tiny` takes the sections `tiny` and `tiny, ...` of the report.
"""

from __future__ import annotations

import argparse
from pathlib import Path

BEGIN, END = "<!-- evaluation -->\n", "<!-- /evaluation -->"


def tables(report: str, name: str) -> str:
    """The report's sections about `name`, one heading level down. Raises SystemExit without any."""
    sections = [section.split("\n", 1) for section in report.split("\n## ")[1:]]
    found = [f"### {title}\n{body.rstrip()}\n" for title, body in sections if title.split(",")[0] == name]
    if not found:
        raise SystemExit(f"the report has no section about {name}")
    return "\n".join(found)


def filled(card: str, text: str) -> str:
    """`card` with `text` between its markers. Raises SystemExit for a card without them."""
    head, begin, rest = card.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"the card lacks the lines {BEGIN.strip()} and {END}")
    return f"{head}{begin}{text.strip()}\n{end}{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    args = parser.parse_args()
    report = args.report.read_text(encoding="utf-8")
    for folder in args.folders:
        card = folder / "README.md"
        found = tables(report, folder.resolve().name)
        card.write_text(filled(card.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()

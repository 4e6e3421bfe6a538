"""Sections as text for a terminal: plain characters, so that what a person sees is what a pipe gets."""

from __future__ import annotations

import io
from collections.abc import Iterable

from ttsbench.report.section import Grid, Section

COLUMNS = 100


def render_terminal(sections: Iterable[Section], columns: int = COLUMNS) -> str:
    """No line is wider than `columns`, and nothing is cut off: what cannot fit is folded. No trailing newline."""
    from rich.console import Console
    from rich.text import Text

    page = io.StringIO()
    console = Console(file=page, width=columns, color_system=None, force_terminal=False, legacy_windows=False)
    for section in sections:
        for line in (section.title, *([section.ledger] if section.ledger else [])):
            console.print(Text(line, overflow="fold"))
        for grid in section.grids:
            console.print(_table(grid))
        for note in section.notes:
            console.print(Text(note, overflow="fold"))
        console.print()
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines()).rstrip("\n")


def _table(grid: Grid) -> object:
    """Names to the left, figures to the right. Cells are text: brackets in a name are no markup."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for place, name in enumerate(grid.header):
        words = place == 0 or name in ("protocol", "id")
        table.add_column(Text(name), justify="left" if words else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table

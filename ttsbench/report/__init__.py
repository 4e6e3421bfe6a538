"""What scores.json says, for people: tables for a terminal, Markdown for a pull request, plots. Reads records only."""

from ttsbench.report.markdown import render_markdown, write_markdown
from ttsbench.report.section import Grid, Section
from ttsbench.report.table import score_table
from ttsbench.report.terminal import render_terminal

__all__ = ["Grid", "Section", "render_markdown", "render_terminal", "score_table", "write_markdown"]

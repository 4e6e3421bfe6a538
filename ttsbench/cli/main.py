"""`ttsbench`: the commands, and what their failures look like.

Exit codes: 0 done; 2 invalid input, before any work; 4 finished, but some rows did not end well (each listed); 5 an
engine or scorer broke; 130 interrupted, with a valid partial state.
"""

from __future__ import annotations

import typer

from ttsbench.cli.bench import bench
from ttsbench.cli.say import say
from ttsbench.cli.score import score
from ttsbench.cli.synth import synth

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Prove that a speech-synthesis engine got faster and still says the same words in the same voice.",
)
app.command()(say)
app.command()(synth)
app.command()(score)
app.command()(bench)

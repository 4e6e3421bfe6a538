"""The oracle's check of checkpoint folders, as far as it goes without the official package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "oracle" / "check_checkpoint.py"


def test_help_needs_no_oracle():
    """Import `official` at the top of the script and it ends in an ImportError wherever the package is missing."""
    ended = subprocess.run([sys.executable, str(SCRIPT), "--help"], capture_output=True, encoding="utf-8")
    assert ended.returncode == 0, ended.stderr
    assert "FOLDER" in ended.stdout

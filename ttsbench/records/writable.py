"""Whether results can be written, asked before the work that makes them."""

from __future__ import annotations

import os
from pathlib import Path


def unwritable(folder: Path) -> str | None:
    """Why no file can be made in `folder`, which may have to be made first, in words that continue "got ..."; or None.

    Only kinds and permissions are looked at: a disk may still be full when the time comes.
    """
    nearest = folder.absolute()
    # os.path answers False, where Path raises, for a name that cannot exist (too long, below a file).
    while not os.path.lexists(nearest):
        nearest = nearest.parent
    if not os.path.isdir(nearest):
        return f"{nearest}, which is no folder"
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"no permission to write into {nearest}"
    return None

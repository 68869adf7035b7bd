"""Lets other users reach the files of a test."""

from __future__ import annotations

import tempfile
from pathlib import Path


def make_reachable(folder: Path) -> None:
    """Lets other users enter and list a temporary folder, and enter the folders above it."""
    top = Path(tempfile.gettempdir()).resolve()
    for path in (folder, *folder.resolve().parents):
        if path == top:
            return
        path.chmod(0o755)

"""Lets other users reach what a test gives them."""

from __future__ import annotations

import tempfile
from pathlib import Path


def make_reachable(folder: Path) -> None:
    """Lets other users enter a folder below the folder of temporary files, and list it."""
    top = Path(tempfile.gettempdir()).resolve()
    for path in (folder, *folder.resolve().parents):
        if path == top:
            return
        path.chmod(0o755)

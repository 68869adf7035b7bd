"""Lets other users reach what a test gives them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests import ROOT


def make_reachable(folder: Path) -> None:
    """Lets other users enter a folder below the folder of temporary files, and list it."""
    top = Path(tempfile.gettempdir()).resolve()
    for path in (folder, *folder.resolve().parents):
        if path == top:
            return
        path.chmod(0o755)


def reachable_agent(folder: Path) -> Path:
    """A copy of agent/ below this folder that other users can run.

    They may be unable to enter the project's own folder (in /root), or its files (a checkout with the umask 077).
    """
    agent = folder / "agent"
    shutil.copytree(ROOT / "agent" / "capacityd", agent / "capacityd", ignore=shutil.ignore_patterns("__pycache__"))
    for path in agent.rglob("*"):
        path.chmod(0o755)
    make_reachable(agent)
    return agent

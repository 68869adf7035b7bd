"""Versions of the `kubernetes` client, each with its dependencies in a virtual environment that is made once."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.cluster.agent import PYTHON
from tests.cluster.binaries import cache_folder, locked, say

NEWEST = "newest"
# The oldest that is supported, Debian 12's and 13's, and what comes next.
VERSIONS = ("12.0.1", "22.6.0", "30.1.0", NEWEST)


def client(version: str) -> Path:
    """A Python that has this version of the client and nothing else; the newest is looked for again each week."""
    home = cache_folder().parent.parent / "clients"
    name = f"{version}-{time.strftime('%G-%V')}" if version == NEWEST else version
    # Debian's Python may be another one tomorrow, and its environments are of no use then.
    folder = home / f"{os.path.basename(os.path.realpath(PYTHON))}-{name}".replace(".", "_")
    if not (folder / "whole").exists():
        with locked(folder):
            if not (folder / "whole").exists():
                _make(folder, version)
    return folder / "bin" / "python"


def _make(folder: Path, version: str) -> None:
    say(f"installing kubernetes {version} into {folder}: once")
    for old in folder.parent.glob(f"*-{NEWEST}-*/") if version == NEWEST else ():
        shutil.rmtree(old)
    _do(PYTHON, "-m", "venv", "--clear", folder)
    wanted = "kubernetes" if version == NEWEST else f"kubernetes=={version}"
    _do(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted)
    (folder / "whole").touch()


def _do(*command: str | Path) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{result.stdout}{result.stderr}")

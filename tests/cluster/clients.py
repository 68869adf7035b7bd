"""Versions of the `kubernetes` client, each with its dependencies in a virtual environment that is made once.

All are pinned (clients.txt), so that a release of somebody else's is met when the pin is moved, not on some day.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from zlib import crc32

from tests.cluster.agent import PYTHON
from tests.cluster.binaries import cache_folder, locked, say
from tests.network import persistently

# The oldest that is supported, Debian 12's and 13's, and the newest.
VERSIONS = ("12.0.1", "22.6.0", "30.1.0", "37.0.2")
_PINS = Path(__file__).with_name("clients.txt")
_BESIDE = ("psutil", "pyudev", "tabulate")  # what capacityd's commands import beside it


def client(version: str) -> Path:
    """A Python that has this version of the client and nothing else."""
    home = cache_folder().parent.parent / "clients"
    # Debian's Python may be another one tomorrow, and its environments are of no use then.
    pins = crc32(_PINS.read_bytes())  # another list of them makes another environment
    folder = home / f"{os.path.basename(os.path.realpath(PYTHON))}-{version}-{pins:08x}".replace(".", "_")
    if not (folder / "whole").exists():
        with locked(folder):
            if not (folder / "whole").exists():
                _make(folder, version)
    return folder / "bin" / "python"


def _make(folder: Path, version: str) -> None:
    say(f"installing kubernetes {version} into {folder}: once")
    _do(PYTHON, "-m", "venv", "--clear", folder)
    pip: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    install = [*pip, "install", "--constraint", _PINS, f"kubernetes=={version}", *_BESIDE]
    persistently(lambda: _do(*install), RuntimeError)
    (folder / "whole").touch()


def _do(*command: str | Path) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{result.stdout}{result.stderr}")

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
URLLIB3 = ("1.26.20", "2.8.0")
"""The last of the old one, and the newest."""
NEEDS_URLLIB3_2 = VERSIONS[-1:]
ALL = tuple(
    (version, urllib3) for version in VERSIONS for urllib3 in (URLLIB3[-1:] if version in NEEDS_URLLIB3_2 else URLLIB3)
)
_PINS = Path(__file__).with_name("clients.txt")
_BESIDE = ("jsonpatch", "psutil", "pyudev", "tabulate")  # what capacityd's commands import beside it


def client(version: str, urllib3: str = URLLIB3[-1]) -> Path:
    """A Python that has this version of the client on this version of urllib3, and nothing else of Kubernetes."""
    home = cache_folder().parent.parent / "clients"
    # Debian's Python may be another one tomorrow, and its environments are of no use then.
    pins = crc32(_PINS.read_bytes())  # another list of them makes another environment
    name = f"{os.path.basename(os.path.realpath(PYTHON))}-{version}-{urllib3}-{pins:08x}".replace(".", "_")
    if not (home / name / "whole").exists():
        with locked(home / name):
            if not (home / name / "whole").exists():
                install(home / name, f"kubernetes=={version}", f"urllib3=={urllib3}", f"--constraint={_PINS}")
    return home / name / "bin" / "python"


def install(folder: Path, *requirements: str) -> None:
    """Makes the environment, with what else capacityd imports. requirements: as pip takes them."""
    say(f"installing {', '.join(requirements[:2])} into {folder}: once")
    _do(PYTHON, "-m", "venv", "--clear", folder)
    pip: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    persistently(lambda: _do(*pip, "install", *requirements, *_BESIDE), RuntimeError)
    # It is built from source, for which a node has no compiler: the distribution's will do.
    systemd = Path(_do(PYTHON, "-c", "import systemd; print(systemd.__path__[0])").strip())
    packages = Path(
        _do(folder / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    (packages / "systemd").symlink_to(systemd)
    (folder / "whole").touch()


def _do(*command: str | Path) -> str:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{result.stdout}{result.stderr}")
    return result.stdout

"""Versions of the `kubernetes` client, each in a virtual environment with its dependencies, created once.

clients.txt pins every dependency, so that a new release of one affects the tests only when its pin changes.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from zlib import crc32

from tests.cluster.agent import PYTHON
from tests.cluster.binaries import cache_folder, locked, say
from tests.network import persistently

# The oldest supported version, the versions in Debian 12 and 13, and the newest.
VERSIONS = ("12.0.1", "22.6.0", "30.1.0", "37.0.2")
URLLIB3 = ("1.26.20", "2.8.0")
"""The last 1.x release, and the newest release."""
NEEDS_URLLIB3_2 = VERSIONS[-1:]
ALL = tuple(
    (version, urllib3)
    for version in VERSIONS
    for urllib3 in URLLIB3
    if urllib3 == URLLIB3[-1] or version not in NEEDS_URLLIB3_2
)
"""All pairs of versions that work together: of the client, and of urllib3."""
_PINS = Path(__file__).with_name("clients.txt")
_OTHER_DEPENDENCIES = ("psutil", "pyudev", "tabulate")
_COMPLETE = "whole"  # a file in each environment whose installation has ended


def client(version: str, urllib3: str = URLLIB3[-1]) -> Path:
    """The Python of an environment with this version of the client and this version of urllib3."""
    builds = cache_folder().parent
    home = builds.parent / "clients"
    # An environment fits one version of Debian's Python and one list of pins, so its name contains both.
    pins = crc32(_PINS.read_bytes())
    name = f"{os.path.basename(os.path.realpath(PYTHON))}-{version}-{urllib3}-{pins:08x}".replace(".", "_")
    if not (home / name / _COMPLETE).exists():
        with locked(home / name):
            if not (home / name / _COMPLETE).exists():  # another process may have installed it in the meantime
                install(home / name, f"kubernetes=={version}", f"urllib3=={urllib3}", f"--constraint={_PINS}")
    return home / name / "bin" / "python"


def install(folder: Path, *requirements: str) -> None:
    """Creates an environment with these requirements (in pip's syntax) and with capacityd's other dependencies."""
    say(f"installing {', '.join(requirements[:2])} into {folder}: once")
    _do(PYTHON, "-m", "venv", "--clear", folder)
    pip: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    persistently(lambda: _do(*pip, "install", *requirements, *_OTHER_DEPENDENCIES), RuntimeError)
    # pip would have to compile systemd-python, and a node has no compiler. So use the distribution's package.
    systemd = Path(_do(PYTHON, "-c", "import systemd; print(systemd.__path__[0])").strip())
    site_packages = _do(folder / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    Path(site_packages.strip(), "systemd").symlink_to(systemd)
    (folder / _COMPLETE).touch()


def _do(*command: str | Path) -> str:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{result.stdout}{result.stderr}")
    return result.stdout

"""What a machine may lack that a part needs. Each function returns None, or what is missing with its remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests import ROOT
from tests.cluster import binaries
from tests.package import trees

Need = Callable[[], str | None]

_BUILD_GB = 4.0
"""What the build of Kubernetes takes: Go's modules and cache, and the programs."""
_TREE_GB = 1.0


@cache
def root() -> str | None:
    return None if os.geteuid() == 0 else "not root: run it with sudo"


@cache
def namespaces() -> str | None:
    command = ("unshare", "--mount", "--net", "--pid", "--fork", "true")
    if subprocess.run(command, capture_output=True).returncode == 0:
        return None
    return (
        "no CAP_SYS_ADMIN, so no namespaces: use a virtual machine or a privileged container (docker run --privileged)"
    )


@cache
def control_plane() -> str | None:
    if not binaries.programs().missing(binaries.SERVERS):
        return None
    if not binaries.installed_go():
        return "no go to build Kubernetes with: apt-get install golang-go"
    return _download("Kubernetes is not built yet", binaries.go_cache(), _BUILD_GB)


@cache
def tree() -> str | None:
    """Debian for the package's machines."""
    return None if trees.cached("13") else _download("Debian 13 is not in the cache", trees.cache(), _TREE_GB)


@cache
def package_tools() -> str | None:
    return _packages("packages-package")


@cache
def machine_tools() -> str | None:
    return _packages("packages-machine")


@cache
def user_tools() -> str | None:
    """What pip installs for another user."""
    return _download("another user has no .venv", Path(tempfile.gettempdir()), 0.5)


@cache
def site_tools() -> str | None:
    return _made(".venv-packaging/ready")


@cache
def actionlint() -> str | None:
    return _made("build/bin/actionlint")


def _packages(target: str) -> str | None:
    """Whether make can install the distribution's packages of this target."""
    command = ("make", "--no-print-directory", target, "INSTALL=missing")
    missing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    if not missing:
        return None
    if root() and not shutil.which("sudo"):
        return f"not installed: {' '.join(missing)}: run apt-get install with these as root"
    return _download(f"not installed: {' '.join(missing)}", Path("/"), _TREE_GB)


def _made(target: str) -> str | None:
    return None if (ROOT / target).exists() else _download(f"{target} is not there yet", ROOT, 0.2)


def _download(what: str, folder: Path, gigabytes: float) -> str | None:
    if not _network():
        return f"{what}, and there is no network: run it once with one"
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 1e9
    if free >= gigabytes:
        return None
    return (
        f"{what}: it takes {gigabytes:g} GB in {folder}, and {free:.1f} GB are free: free some, or set XDG_CACHE_HOME"
    )


@cache
def _network() -> bool:
    """Whether a route leaves this machine."""
    v4 = Path("/proc/net/route").read_text().splitlines()[1:]
    v6 = Path("/proc/net/ipv6_route")
    others = [line for line in (v6.read_text().splitlines() if v6.exists() else []) if _leaves(line)]
    return bool(v4 or others)


def _leaves(route: str) -> bool:
    """Whether a line of /proc/net/ipv6_route is about more than this machine and its link."""
    return not route.startswith(("fe80", "ff00")) and route.split()[-1] != "lo"

"""What a part needs from its machine. Each function returns None, or the missing need with its remedy."""

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

_BUILD_GB = 4.0  # Go's modules, its cache, and the programs of Kubernetes
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
    """Debian, for the machines of the package tests."""
    return None if trees.cached("13") else _download("Debian 13 is not in the cache", trees.cache(), _TREE_GB)


@cache
def user_tools() -> str | None:
    """The tools that pip installs for another user."""
    return _download("another user has no .venv", Path(tempfile.gettempdir()), 0.5)


@cache
def target(name: str) -> str | None:
    """A target of the Makefile: a file, or a list of the distribution's packages."""
    if not name.startswith("packages-"):
        return None if (ROOT / name).exists() else _download(f"{name} is not there yet", ROOT, 0.2)
    command = ("make", "--no-print-directory", name, "INSTALL=missing")
    missing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    if not missing:
        return None
    if root() and not shutil.which("sudo"):
        return f"not installed: {' '.join(missing)}: run apt-get install with these as root"
    return _download(f"not installed: {' '.join(missing)}", Path("/"), _TREE_GB)


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
    """Whether this machine has a route to the network."""
    routes = (
        subprocess.run(["ip", version, "route", "show", "default"], capture_output=True).stdout
        for version in ("-4", "-6")
    )
    return any(routes)

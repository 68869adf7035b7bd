"""What a part needs from its machine. Each function returns None, or the missing need with its remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache

from tests import ROOT
from tests.cluster import binaries

Need = Callable[[], str | None]


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
    if binaries.installed_go() or not binaries.programs().missing(binaries.SERVERS):
        return None
    return "no go to build Kubernetes with: apt-get install golang-go"


@cache
def target(name: str) -> str | None:
    """A target of the Makefile: a file, or a list of the distribution's packages. make installs missing packages, if
    the user is root or has sudo."""
    if not name.startswith("packages-"):
        return None
    command = ("make", "--no-print-directory", name, "INSTALL=missing")
    missing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    can_install = os.geteuid() == 0 or shutil.which("sudo") is not None
    if not missing or can_install:
        return None
    return f"not installed: {' '.join(missing)}: run apt-get install with these as root"

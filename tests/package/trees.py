"""Debian itself, as folders: made once by mmdebstrap and kept in the cache, keyed by what was asked for."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

RELEASES = {"12": "bookworm", "13": "trixie"}

# Nothing in a test is to wait for what only a real machine has, or to know the one that it runs on.
_HOOK = """cd "$1" && mkdir -p etc/cloud && : >etc/cloud/cloud-init.disabled && : >etc/machine-id &&
    echo node >etc/hostname && : >etc/resolv.conf"""

# What a node image has of what the package depends on, so that dpkg alone can install it.
NODE = (
    *("dbus", "iproute2", "systemd", "systemd-sysv", "udev"),
    *(
        "python3-jsonpatch",
        "python3-kubernetes",
        "python3-prometheus-client",
        "python3-pyudev",
        "python3-rich",
        "python3-systemd",
    ),
)
PACKAGES = {"12": (*NODE, "cloud-init"), "13": NODE}


def tree(release: str) -> Path:
    """The folder of a release without a kernel, made now if need be. Whoever uses it must not write to it."""
    return debian(f"debian-{release}", RELEASES[release], PACKAGES[release], _HOOK)


def debian(name: str, suite: str, packages: Sequence[str], hook: str = "", options: Sequence[str] = ()) -> Path:
    """The folder of this suite with these packages, finished by the shell's hook, made now if need be."""
    hooks = [f"--customize-hook={hook}"] if hook else []
    recipe = ["--variant=minbase", f"--include={','.join(packages)}", *options, *hooks, suite]
    key = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:16]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "capacityd", "trees")
    base.mkdir(parents=True, exist_ok=True)
    folder = base / f"{name}-{key}"
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _make(recipe, folder)
    return folder


def _make(recipe: list[str], folder: Path) -> None:
    print(f"making {folder}: once, one to two minutes", file=sys.stderr, flush=True)
    start = time.monotonic()
    unfinished = folder.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    result = subprocess.run(["mmdebstrap", "--quiet", *recipe, unfinished], capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"mmdebstrap {' '.join(recipe)} failed:\n{result.stderr[-3000:]}")
    unfinished.rename(folder)
    print(f"made it in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)

"""Debian and Ubuntu as folders, which mmdebstrap makes once. A folder's name contains a checksum of its recipe."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.network import persistently

RELEASES = {"12": "bookworm", "13": "trixie"}
UBUNTU = {"22.04": "jammy", "24.04": "noble", "26.04": "resolute"}

# Makes the tests independent of the real machine, and prevents waits for missing hardware.
HOOK = """cd "$1" && mkdir -p etc/cloud && : >etc/cloud/cloud-init.disabled && : >etc/machine-id &&
    echo node >etc/hostname && : >etc/resolv.conf"""

# A node image with the dependencies of the package, so that dpkg alone can install it.
NODE = (
    "dbus",
    "iproute2",
    "systemd",
    "systemd-sysv",
    "udev",
    "python3-kubernetes",
    "python3-prometheus-client",
    "python3-psutil",
    "python3-pyudev",
    "python3-systemd",
    "python3-tabulate",
)
PACKAGES = {"12": (*NODE, "cloud-init"), "13": NODE, "22.04": (*NODE, "python3-tomli"), "24.04": NODE, "26.04": NODE}

_UBUNTU = "http://archive.ubuntu.com/ubuntu"
# Debian has no package of these keys.
_KEYS = f"{_UBUNTU}/pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb"
_KEYS_SHA256 = "0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f"


def tree(release: str) -> Path:
    """The folder of a release, without a kernel. Makes the folder if it is missing. Do not write to it."""
    if release in UBUNTU:
        options = ["--components=main,universe", f"--keyring={_ubuntu_keys()}"]
        suite = UBUNTU[release]
        return debian(f"ubuntu-{release}", suite, PACKAGES[release], HOOK, options=options, mirror=_UBUNTU)
    return debian(f"debian-{release}", RELEASES[release], PACKAGES[release], HOOK)


def debian(
    name: str, suite: str, packages: Sequence[str], hook: str = "", options: Sequence[str] = (), mirror: str = ""
) -> Path:
    """The folder of this suite with these packages, changed by this shell hook. Makes the folder if it is missing."""
    recipe = _recipe(suite, packages, hook, options)
    folder = _place(name, recipe)
    _once(folder, lambda: _make(recipe, folder, [mirror] if mirror else []))
    return folder


def _once(path: Path, make: Callable[[], None]) -> None:
    """Makes the file or folder unless it exists. Other processes wait."""
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            make()


def _recipe(suite: str, packages: Sequence[str], hook: str, options: Sequence[str] = ()) -> list[str]:
    hooks = [f"--customize-hook={hook}"] if hook else []
    return ["--variant=minbase", f"--include={','.join(packages)}", *options, *hooks, suite]


def _place(name: str, recipe: list[str]) -> Path:
    return cache() / f"{name}-{hashlib.sha256(chr(0).join(recipe).encode()).hexdigest()[:16]}"


def cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "capacityd", "trees")
    base.mkdir(parents=True, exist_ok=True)
    return base


def _ubuntu_keys() -> Path:
    """The keys that sign Ubuntu's archive, which are the same for all releases."""
    folder = cache() / f"ubuntu-keys-{_KEYS_SHA256[:16]}"
    _once(folder, lambda: _make_ubuntu_keys(folder))
    return folder / "usr/share/keyrings/ubuntu-archive-keyring.gpg"


def _make_ubuntu_keys(folder: Path) -> None:
    package = folder.with_suffix(".deb")
    failures = (OSError, http.client.HTTPException)
    package.write_bytes(persistently(lambda: urllib.request.urlopen(_KEYS, timeout=60).read(), failures))
    if hashlib.sha256(package.read_bytes()).hexdigest() != _KEYS_SHA256:
        raise RuntimeError(f"{_KEYS} has changed")
    subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    package.unlink()


def _make(recipe: list[str], folder: Path, mirror: list[str]) -> None:
    print(f"making {folder}: once, one to two minutes", file=sys.stderr, flush=True)
    start = time.monotonic()
    unfinished = folder.with_suffix(".new")
    persistently(lambda: _bootstrap(recipe, unfinished, mirror), RuntimeError)
    unfinished.rename(folder)
    print(f"made it in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def _bootstrap(recipe: list[str], unfinished: Path, mirror: list[str]) -> None:
    shutil.rmtree(unfinished, ignore_errors=True)
    result = subprocess.run(["mmdebstrap", "--quiet", *recipe, unfinished, *mirror], capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"mmdebstrap {' '.join(recipe)} failed:\n{result.stderr[-3000:]}")

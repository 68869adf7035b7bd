"""The package under test, built from one copy of the sources, in two versions."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT

OLDER = "0.0.9"


@dataclass(frozen=True, slots=True)
class Packages:
    """The built packages.

    sources: the copy of the project. folder: all files of the current build, with the source package. kubectl: the
    package kubectl-capacityd. older: the package capacityd with an older version number.
    """

    sources: Path
    folder: Path
    current: Path
    kubectl: Path
    older: Path


def build_packages(top: Path) -> Packages:
    """Builds the current and an older version into a new folder."""
    sources = copy_sources(top / "sources")
    with ThreadPoolExecutor() as pool:
        current = pool.submit(build, sources, top / "current")
        older = pool.submit(build, sources, top / "older", OLDER)
        current.result()
        older.result()
    return built_packages(top)


def copy_sources(folder: Path) -> Path:
    """Copies the sources into a new folder, so that edits during the tests change no build."""
    folder.mkdir(parents=True)
    copy = 'sh packaging/sources | tar -c --null --no-recursion --files-from=- | tar -x -C "$0"'
    subprocess.run(["sh", "-c", copy, folder], check=True, cwd=ROOT)
    return folder


def built_packages(top: Path) -> Packages:
    """The packages that build_packages() has built there."""
    (current,) = (top / "current").glob("capacityd_*.deb")
    (older,) = (top / "older").glob("capacityd_*.deb")
    (kubectl,) = (top / "current").glob("kubectl-capacityd_*.deb")
    return Packages(top / "sources", top / "current", current, kubectl, older)


def build(sources: Path, folder: Path, *version: str) -> Path:
    """Builds the packages like `make deb`, but without unit tests. Returns the path of the package capacityd."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent", "DEB_BUILD_OPTIONS": "nocheck"}
    command: list[str | Path] = ["sh", sources / "packaging/build-deb", folder, *version]
    result = subprocess.run(command, capture_output=True, text=True, env={**environment, "SOURCE": "1"}, timeout=600)
    assert result.returncode == 0, result.stderr
    capacityd, _kubectl = map(Path, result.stdout.splitlines())
    return capacityd

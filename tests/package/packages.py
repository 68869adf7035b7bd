"""The package under test, built from one copy of the sources, in two versions."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT

OLDER = "0.0.9"
NO_TESTS = {"DEB_BUILD_OPTIONS": "nocheck"}


@dataclass(frozen=True, slots=True)
class Packages:
    """sources: the copy of the project. folder: all files of the current build, with the source package.

    kubectl: the package kubectl-capacityd of the current version. older: a version before current, with a different
    conf/capacityd.toml.
    """

    sources: Path
    folder: Path
    current: Path
    kubectl: Path
    older: Path


def build_packages(top: Path, environment: Mapping[str, str]) -> Packages:
    """Builds the current version, with this environment, and an older one into a folder that does not exist."""
    sources = copy_sources(top / "sources")
    with ThreadPoolExecutor() as pool:
        current = pool.submit(build, sources, top / "current", environment={"SOURCE": "1", **environment})
        older = pool.submit(build_older, sources, top)
        current.result()
        older.result()
    return built_packages(top)


def copy_sources(folder: Path) -> Path:
    """Copies the sources into a new folder, so that edits during the tests change no build."""
    folder.mkdir(parents=True)
    copy = 'sh packaging/sources | tar -c --null --no-recursion --files-from=- | tar -x -C "$0"'
    subprocess.run(["sh", "-c", copy, folder], check=True, cwd=ROOT)
    return folder


def build_older(sources: Path, top: Path) -> Path:
    """Builds an older version, and returns its path.

    It has a different conf/capacityd.toml, and the folder of examples is in /usr/share/doc.
    """
    before = top / "before"
    subprocess.run(["cp", "-R", sources, before], check=True)
    with open(before / "conf/capacityd.toml", "a") as example:
        example.write("# As an older version had it.\n")
    debian = before / "packaging/deb"
    (debian / "capacityd.maintscript").unlink()
    for name in ("capacityd.install", "capacityd.links", "rules"):
        file = debian / name
        lines = (line for line in file.read_text().splitlines(keepends=True) if "/doc/capacityd/examples" not in line)
        file.write_text("".join(lines).replace("share/capacityd/examples", "share/doc/capacityd/examples"))
    return build(before, top / "older", OLDER, environment=NO_TESTS)


def built_packages(top: Path) -> Packages:
    """Returns the packages that build_packages() has built there."""
    (current,), (older,) = ((top / name).glob("capacityd_*.deb") for name in ("current", "older"))
    (kubectl,) = (top / "current").glob("kubectl-capacityd_*.deb")
    return Packages(top / "sources", top / "current", current, kubectl, older)


def build(sources: Path, folder: Path, *version: str, environment: Mapping[str, str] | None = None) -> Path:
    """Builds the packages as `make deb` does, and returns the path of capacityd's."""
    usual = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent"}
    command: list[str | Path] = ["sh", sources / "packaging/build-deb", folder, *version]
    result = subprocess.run(command, capture_output=True, text=True, env={**usual, **(environment or {})}, timeout=600)
    assert result.returncode == 0, result.stderr
    capacityd, _kubectl = map(Path, result.stdout.splitlines())
    return capacityd

"""The sources of a release: a clone of its tag."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

PACKAGES = {"capacityd": "agent", "kubectl-capacityd": "kubectl"}
"""Package, for Debian and for pip -> the folder of its modules."""


class ReleaseError(Exception):
    """Says why no release was made, and what to do."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """folder: the clone. epoch: the time of the release in seconds since 1970, for reproducible files."""

    folder: Path
    version: str
    epoch: int


def clone(repository: Path, version: str, folder: Path) -> Checkout:
    """Clones the tag of this version. Raises ReleaseError if the tag is missing, or if the module's version differs.

    packaging/build-deb compares the module's version with the Debian changelog, and with that of kubectl-capacityd.
    """
    tag = f"v{version}"
    if not output(repository, "git", "tag", "--list", tag):
        raise ReleaseError(f"there is no tag {tag}: CONTRIBUTING.md, Releasing, has the steps")
    output(
        repository, "git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--branch", tag, repository, folder
    )
    module = "agent/capacityd/__init__.py"
    (own,) = re.findall(r'^__version__ = "(.*)"$', (folder / module).read_text(), re.MULTILINE)
    if own != version:
        raise ReleaseError(f"{module} says {own}, the tag {version}")
    timestamp = output(folder, "dpkg-parsechangelog", "--file", "packaging/deb/changelog", "--show-field", "Timestamp")
    return Checkout(folder, version, int(timestamp))


def release_notes(checkout: Checkout) -> str:
    """Returns this version's section of the changelog, without the heading."""
    text = (checkout.folder / "CHANGELOG.md").read_text()
    section = re.search(
        rf"^## {re.escape(checkout.version)} \d{{4}}-\d\d-\d\d\n+(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    if section is None:
        raise ReleaseError(f'CHANGELOG.md has no section "## {checkout.version}" with a date')
    return section[1].rstrip() + "\n"


def output(folder: Path, *command: str | Path) -> str:
    """Runs a command in this folder and returns its output. Raises CalledProcessError."""
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

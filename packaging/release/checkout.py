"""The sources of a release: a clone of its tag, in which all places agree on the version."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_DEBIAN_CHANGELOG = "packaging/deb/changelog"


class ReleaseError(Exception):
    """Why there is no release, and what to do."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """folder: the clone. epoch: the time of the release in seconds since 1970, for reproducible files."""

    folder: Path
    version: str
    epoch: int


def clone(repository: Path, version: str, folder: Path) -> Checkout:
    """Clones the tag of this version. Raises ReleaseError if there is none, or if a file says another version."""
    tag = f"v{version}"
    if not output(repository, "git", "tag", "--list", tag):
        raise ReleaseError(f"there is no tag {tag}: CONTRIBUTING.md, Releasing, has the steps")
    output(
        repository, "git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--branch", tag, repository, folder
    )
    checkout = Checkout(folder, version, int(_changelog_field(folder, "Timestamp")))
    _check_versions(checkout)
    return checkout


def release_notes(checkout: Checkout) -> str:
    """Returns the section of this version in the changelog, without its heading."""
    text = (checkout.folder / "CHANGELOG.md").read_text()
    section = re.search(
        rf"^## {re.escape(checkout.version)} \d{{4}}-\d\d-\d\d\n+(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    if section is None:
        raise ReleaseError(f'CHANGELOG.md has no section "## {checkout.version}" with a date')
    return section[1].rstrip() + "\n"


def output(folder: Path, *command: str | Path) -> str:
    """Runs a command in this folder and returns what it prints. Raises CalledProcessError."""
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def _changelog_field(folder: Path, field: str) -> str:
    """Returns the field of the newest entry of Debian's changelog."""
    return output(folder, "dpkg-parsechangelog", "--file", _DEBIAN_CHANGELOG, "--show-field", field)


def _check_versions(checkout: Checkout) -> None:
    modules = (checkout.folder / "agent/capacityd/__init__.py").read_text()
    said = {
        "agent/capacityd/__init__.py": "".join(re.findall(r'^__version__ = "(.*)"$', modules, re.MULTILINE)),
        _DEBIAN_CHANGELOG: _changelog_field(checkout.folder, "Version").rpartition("-")[0],
    }
    for place, version in said.items():
        if version != checkout.version:
            raise ReleaseError(f"{place} says {version}, the tag {checkout.version}")

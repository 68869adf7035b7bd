"""`make release` in a clone, and a machine that installs and upgrades from the repository of the release."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import ROOT
from tests.package.machine import Machine, machine
from tests.package.packages import copy_sources
from tests.package.service import assert_no_warnings, publish_seats

_SERVED = "/srv/apt"
_SOURCE = f"""\
Types: deb
URIs: file:{_SERVED}/
Suites: stable
Components: main
Signed-By: /etc/apt/keyrings/capacityd.asc
"""


@dataclass(frozen=True, slots=True)
class Project:
    """A git repository with a copy of the project, for commits and tags, and a GnuPG home with one key."""

    folder: Path
    keys: Path

    def run(self, *command: str, status: int = 0) -> str:
        names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
        identity = dict.fromkeys(names, "a@example.com")
        environment = {**os.environ, **identity, "GNUPGHOME": str(self.keys), "DEB_BUILD_OPTIONS": "nocheck"}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=900)
        assert done.returncode == status, (done.stdout + done.stderr)[-3000:]
        return done.stdout + done.stderr

    def set_version(self, version: str) -> None:
        """Sets the version, commits and tags, as CONTRIBUTING.md says."""
        for name, pattern, replacement in (
            ("agent/capacityd/__init__.py", r'^(__version__ = ").*"', rf'\g<1>{version}"'),
            ("packaging/deb/changelog", r"^(capacityd )\(.*?\)", rf"\1({version}-1)"),
            ("CHANGELOG.md", r"^## \d.*$", f"## {version} 2026-11-23"),
        ):
            path = self.folder / name
            path.write_text(re.sub(pattern, replacement, path.read_text(), count=1, flags=re.MULTILINE))
        of_kubectl = self.folder / "kubectl/pyproject.toml"
        of_kubectl.write_text(re.sub(r'(version = "|capacityd==)[\d.]+', rf"\g<1>{version}", of_kubectl.read_text()))
        self.run("git", "commit", "--quiet", "--all", "--message", f"Release {version}", "--allow-empty")
        self.run("git", "tag", f"v{version}")

    def release(self, version: str, status: int = 0, key: str | None = None) -> str:
        """Makes the release with the installed tools. key: the signing key (default: the one in the keyring)."""
        if key is None:
            _, _, fields = self.run("gpg", "--list-keys", "--with-colons").partition("\nfpr:")
            key = fields.split(":")[8]  # the fingerprint
        tools = "--old-file=.venv-packaging/ready"  # make does not install the tools again
        return self.run("make", "--silent", tools, "release", f"VERSION={version}", f"KEY={key}", status=status)


@contextmanager
def project() -> Iterator[Project]:
    # gpg-agent's socket needs a short path; pytest's temporary folders have long paths.
    with tempfile.TemporaryDirectory(prefix="capacityd-") as top:
        project = Project(Path(top, "project"), Path(top, "keys"))
        copy_sources(project.folder)
        project.keys.mkdir(mode=0o700)
        (project.folder / ".venv-packaging").symlink_to(ROOT / ".venv-packaging")
        project.run("git", "init", "--quiet")
        project.run("git", "add", "--", ".", ":!.venv-packaging")
        project.run(
            "gpg", "--batch", "--passphrase", "", "--quick-generate-key", "A test <test@example.com>", "rsa3072", "sign"
        )
        try:
            yield project
        finally:
            project.run("gpgconf", "--kill", "gpg-agent")


@pytest.mark.whole
@pytest.mark.timeout(1200)
def test_nodes_install_a_release_and_upgrade_to_the_next() -> None:
    with project() as clone, machine("13") as node:
        for version in ("0.1.0", "0.1.1"):
            clone.set_version(version)
            clone.release(version)
        released = clone.folder / "dist/0.1.0"
        assert {path.name for path in released.iterdir()} == {
            "SHA256SUMS",
            "SHA256SUMS.asc",
            "apt",
            "capacityd-0.1.0.cdx.json",
            "capacityd-0.1.0.deb.cdx.json",
            "debian",
            "kubectl-capacityd-0.1.0.cdx.json",
            "kubectl-capacityd-0.1.0.deb.cdx.json",
            "python",
            "release-notes.md",
            "site",
        }
        assert (released / "release-notes.md").read_text().startswith("The first version.")
        install(node, released)
        assert node.out("capacityd", "--version") == "capacityd 0.1.0"
        publish_seats(node)
        before = node.main_pid
        install(node, clone.folder / "dist/0.1.1")
        assert node.out("capacityd", "--version") == "capacityd 0.1.1"
        assert (node.active, node.enabled) == ("active", "enabled")
        assert node.main_pid != before
        assert_no_warnings(node)


def test_there_is_no_release_without_its_tag_or_with_two_versions() -> None:
    with project() as clone:
        clone.run("git", "commit", "--quiet", "--all", "--message", "Everything")
        assert "there is no tag v9.9.9" in clone.release("9.9.9", status=2)
        clone.run("git", "tag", "v9.9.9")
        assert "__init__.py says 0.1.0, the tag 9.9.9" in clone.release("9.9.9", status=2)
        assert "no release: KEY" in clone.release("9.9.9", status=2, key="")
        assert "no release: VERSION" in clone.release("", status=2)
        assert list(clone.folder.glob("dist/*")) == []


def install(node: Machine, released: Path) -> None:
    """Copies the released repository to the machine, which has no network, and installs from it."""
    node.run("sh", "-c", f"rm -rf {_SERVED} /etc/apt/sources.list /etc/apt/sources.list.d/*")
    node.unpack(released / "apt", _SERVED)
    node.write("/etc/apt/sources.list.d/capacityd.sources", _SOURCE)
    node.write("/etc/apt/keyrings/capacityd.asc", (released / "apt/capacityd-archive-keyring.asc").read_text())
    node.run("apt-get", "update", "--error-on=any", deadline=300)
    node.run("apt-get", "install", "--yes", "--no-install-recommends", "capacityd", deadline=300)

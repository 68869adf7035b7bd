"""`make release`, in a clone; and a machine that installs and upgrades from the repository that it made."""

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
from tests.package.test_life import enable, quiet

_COPY = 'sh packaging/sources | tar -c --null --no-recursion --files-from=- | tar -x -C "$0"'
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
    """A clone of the project, whose tags are the test's own, and a GnuPG home with one key."""

    folder: Path
    keys: Path

    def run(self, *command: str, status: int = 0) -> str:
        identity = {
            f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        environment = {**os.environ, **identity, "GNUPGHOME": str(self.keys), "DEB_BUILD_OPTIONS": "nocheck"}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=900)
        assert done.returncode == status, (done.stdout + done.stderr)[-3000:]
        return done.stdout + done.stderr

    def set_version(self, version: str) -> None:
        """Edits, commits and tags as CONTRIBUTING.md says."""
        for name, pattern, new in (
            ("agent/capacityd/__init__.py", r'^(__version__ = ").*"', rf'\g<1>{version}"'),
            ("packaging/deb/changelog", r"^(capacityd )\(.*?\)", rf"\1({version}-1)"),
            ("CHANGELOG.md", r"^## \d.*$", f"## {version} 2026-11-23"),
        ):
            path = self.folder / name
            path.write_text(re.sub(pattern, new, path.read_text(), count=1, flags=re.MULTILINE))
        self.run("git", "commit", "--quiet", "--all", "--message", f"Release {version}", "--allow-empty")
        self.run("git", "tag", f"v{version}")

    def release(self, version: str, status: int = 0, key: str | None = None) -> str:
        """Makes it with the tools that are installed already. key: None for the one in the keyring."""
        if key is None:
            key = self.run("gpg", "--list-keys", "--with-colons").partition("\nfpr:")[2].split(":")[8]
        tools = "--old-file=.venv-packaging/ready"
        return self.run("make", "--silent", tools, "release", f"VERSION={version}", f"KEY={key}", status=status)


@contextmanager
def project(sources: Path) -> Iterator[Project]:
    # gpg-agent's socket needs a short path, which pytest's own are not.
    with tempfile.TemporaryDirectory(prefix="capacityd-") as top:
        project = Project(Path(top, "project"), Path(top, "keys"))
        project.folder.mkdir()
        project.keys.mkdir(mode=0o700)
        subprocess.run(["sh", "-c", _COPY, project.folder], cwd=sources, check=True)
        (project.folder / ".venv-packaging").symlink_to(ROOT / ".venv-packaging")
        project.run("git", "init", "--quiet")
        project.run(
            "git",
            "add",
            *(path.name for path in project.folder.iterdir() if path.name not in (".git", ".venv-packaging")),
        )
        project.run(
            "gpg", "--batch", "--passphrase", "", "--quick-generate-key", "A test <test@example.com>", "rsa3072", "sign"
        )
        try:
            yield project
        finally:
            project.run("gpgconf", "--kill", "gpg-agent")


@pytest.mark.whole
@pytest.mark.timeout(900)
def test_nodes_install_a_release() -> None:
    with project(ROOT) as clone, machine("13") as node:
        clone.set_version("0.1.0")
        shown = clone.release("0.1.0")
        assert "is ready to be published" in shown
        released = clone.folder / "dist/0.1.0"
        assert {path.name for path in released.iterdir()} == {
            *("SHA256SUMS", "SHA256SUMS.asc", "apt", "capacityd-0.1.0.cdx.json", "debian", "python"),
            *("release-notes.md", "site"),
        }
        assert {path.name for path in (released / "apt").iterdir()} == {
            "capacityd-archive-keyring.asc",
            "dists",
            "pool",
        }
        assert (released / "release-notes.md").read_text().startswith("The first version.")
        assert (released / "site/index.html").is_file()
        refuse_without_the_key(node, released)
        install(node, released)
        assert node.out("capacityd", "--version") == "capacityd 0.1.0"


@pytest.mark.whole
@pytest.mark.timeout(1200)
def test_nodes_upgrade_from_release_to_release() -> None:
    with project(ROOT) as clone, machine("13") as node:
        for version in ("0.1.0", "0.1.1"):
            clone.set_version(version)
            clone.release(version)
        install(node, clone.folder / "dist/0.1.0")
        enable(node)
        before = node.main_pid
        install(node, clone.folder / "dist/0.1.1")
        assert node.out("capacityd", "--version") == "capacityd 0.1.1"
        assert (node.active, node.enabled) == ("active", "enabled")
        assert node.main_pid != before
        quiet(node)


def test_there_is_no_release_without_its_tag_or_with_two_versions() -> None:
    with project(ROOT) as clone:
        clone.run("git", "commit", "--quiet", "--all", "--message", "Everything")
        assert "there is no tag v9.9.9" in clone.release("9.9.9", status=2)
        clone.run("git", "tag", "v9.9.9")
        assert "__init__.py says 0.1.0, the tag 9.9.9" in clone.release("9.9.9", status=2)
        needed = "VERSION, such as 1.2.3", "KEY, the fingerprint of the key that signs"
        assert f"no release: {needed[1]} is missing" in clone.release("9.9.9", status=2, key="")
        assert f"no release: {needed[0]} is missing" in clone.release("", status=2)
        assert f"no release: {' and '.join(needed)} is missing" in clone.release("", status=2, key="")
        assert list(clone.folder.glob("dist/*")) == []


def refuse_without_the_key(node: Machine, released: Path) -> None:
    """apt takes nothing from a repository whose key it does not have."""
    serve(node, released)
    node.write("/etc/apt/keyrings/capacityd.asc", "")
    assert "is not signed" in node.run("apt-get", "update", "--error-on=any", status=100).stderr


def serve(node: Machine, released: Path) -> None:
    """Puts what a web server would serve onto the machine, which has no network, as its only repository."""
    node.run("sh", "-c", f"rm -rf {_SERVED} /etc/apt/sources.list /etc/apt/sources.list.d/*")
    node.unpack(released / "apt", _SERVED)
    node.write("/etc/apt/sources.list.d/capacityd.sources", _SOURCE)


def install(node: Machine, released: Path) -> None:
    serve(node, released)
    node.write("/etc/apt/keyrings/capacityd.asc", (released / "apt/capacityd-archive-keyring.asc").read_text())
    node.run("apt-get", "update", "--error-on=any", deadline=300)
    node.run("apt-get", "install", "--yes", "--no-install-recommends", "capacityd", deadline=300)

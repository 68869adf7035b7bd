"""The page on the package repository, with a real reprepro and apt: nodes install the packages from a repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT
from tests.package.machine import Machine
from tests.package.packages import OLDER, Packages
from tests.support.pages import blocks

_PAGE = (ROOT / "docs/install.md").read_text().partition("\n## A package repository\n")[2].partition("\n## ")[0]
FILES = {block.name: block.text for block in blocks(_PAGE) if block.name}
MAKE_KEY, ADD, PROMOTE, GO_BACK, INSTALL = (block.text for block in blocks(_PAGE) if block.kind == "sh")
SOURCES = "/etc/apt/sources.list.d/example.sources"
KEY = "/etc/apt/keyrings/example.asc"
SERVED = "/srv/repository"


@dataclass(frozen=True, slots=True)
class Repository:
    """A package repository, created with the page's commands."""

    folder: Path
    keys: Path

    def run(self, commands: str) -> str:
        """Runs commands in the repository's folder and returns what they print."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.keys), "GNUPGHOME": str(self.keys)}
        done = subprocess.run(
            ["sh", "-e"], input=commands, capture_output=True, text=True, cwd=self.folder, env=environment, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def add(self, package: Path) -> None:
        """Adds the package to canary. It is the only package in the folder."""
        copied = shutil.copy(package, self.folder)
        self.run(ADD)
        os.unlink(copied)

    def versions(self) -> dict[str, str]:
        """Returns the version in each distribution."""
        listed = self.run("for name in canary stable; do reprepro list $name capacityd; done")
        return {line.partition("|")[0]: line.split()[-1].partition("-")[0] for line in listed.splitlines()}


@contextmanager
def new_repository() -> Iterator[Repository]:
    # gpg-agent's socket needs a short path; pytest's temporary folders have long paths.
    with tempfile.TemporaryDirectory(prefix="capacityd-") as top:
        repository = Repository(Path(top, "repository"), Path(top, "keys"))
        repository.keys.mkdir(mode=0o700)
        (repository.folder / "conf").mkdir(parents=True)
        (repository.folder / "conf/distributions").write_text(FILES["conf/distributions"])
        try:
            repository.run(MAKE_KEY)
            yield repository
        finally:
            repository.run("gpgconf --kill gpg-agent")


def serve(machine: Machine, repository: Repository) -> None:
    """Copies the repository, which a web server would serve, to the machine, which has no network."""
    machine.run("rm", "-rf", SERVED)
    machine.unpack(repository.folder, SERVED)


def installed(machine: Machine) -> str:
    return machine.out("capacityd", "--version").removeprefix("capacityd ")


def test_nodes_install_upgrade_and_go_back_from_a_repository(fresh: Machine, packages: Packages) -> None:
    with new_repository() as repository:
        repository.add(packages.older)
        repository.run(PROMOTE)
        repository.add(packages.current)
        repository.run(GO_BACK)
        assert repository.versions() == {"canary": OLDER, "stable": OLDER}
        repository.add(packages.current)
        current = packages.current.name.split("_")[1].partition("-")[0]
        assert repository.versions() == {"canary": current, "stable": OLDER}

        fresh.run("sh", "-c", "rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*")
        serve(fresh, repository)
        fresh.write(KEY, (repository.folder / "example.asc").read_text())
        (served,) = (line for line in FILES[SOURCES].splitlines() if line.startswith("URIs: "))
        fresh.write(SOURCES, FILES[SOURCES].replace(served, f"URIs: file:{SERVED}/"))
        fresh.run("sh", "-e", text=INSTALL, deadline=300)
        assert installed(fresh) == OLDER
        assert (fresh.active, fresh.enabled) == ("inactive", "disabled")

        repository.run(PROMOTE)
        assert repository.versions() == {"canary": current, "stable": current}
        serve(fresh, repository)
        fresh.run("sh", "-e", text=INSTALL, deadline=300)
        assert installed(fresh) == current

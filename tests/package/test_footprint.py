"""What the package brings to an image matches the page on images: counted in the trees, which have all of it."""

from __future__ import annotations

import email
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from tests import ROOT
from tests.package.packages import Packages
from tests.package.test_build import out
from tests.package.trees import tree

_SHOWN = re.compile(r"^\| Debian (\d+) \| (\d+) \| (\d+) \|", re.MULTILINE)
SHOWN = [tuple(map(int, row)) for row in _SHOWN.findall((ROOT / "docs/how-to/images.md").read_text())]
_FIELDS = "${Package}\t${Provides}\t${Pre-Depends}, ${Depends}\t${Installed-Size}\t${Priority}\n"


@dataclass(frozen=True, slots=True)
class Installed:
    """A package of a tree. kibibytes: its Installed-Size, which apt sums up. needs: names, any of each group."""

    needs: list[list[str]]
    kibibytes: int
    required: bool


@pytest.mark.parametrize(("release", "packages_shown", "mebibytes_shown"), SHOWN)
def test_what_it_brings(packages: Packages, release: int, packages_shown: int, mebibytes_shown: int) -> None:
    """Within what a point release of Debian changes."""
    installed, providers = contents(str(release))
    minimal = [name for name, package in installed.items() if package.required]
    before = closure(installed, providers, [*minimal, "apt", "systemd", "systemd-sysv", "udev"])
    fields = email.message_from_string(out("--field", packages.current))
    needed = [satisfied(providers, group) for group in groups(fields["Depends"])]
    brought = closure(installed, providers, needed) - before
    kibibytes = int(fields["Installed-Size"]) + sum(installed[name].kibibytes for name in brought)
    assert len(brought) + 1 == pytest.approx(packages_shown, abs=2)
    assert kibibytes / 1024 == pytest.approx(mebibytes_shown, rel=0.05)


def test_the_page_has_each_release() -> None:
    assert [row[0] for row in SHOWN] == [12, 13]


def contents(release: str) -> tuple[dict[str, Installed], dict[str, str]]:
    """The packages of a tree by name, and for each name that one has or provides a package."""
    command = ["dpkg-query", f"--admindir={tree(release)}/var/lib/dpkg", "--show", f"--showformat={_FIELDS}"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    installed, providers = dict[str, Installed](), dict[str, str]()
    for name, provides, depends, size, priority in (line.split("\t") for line in listed.splitlines()):
        installed[name] = Installed(groups(depends), int(size), priority == "required")
        providers |= {other: name for group in groups(provides) for other in group if other not in installed}
    return installed, providers | {name: name for name in installed}


def groups(field: str) -> list[list[str]]:
    """A field like Depends without its versions: names, any of each group."""
    bare = re.sub(r"\([^)]*\)|\[[^]]*\]|:\w+", "", field)
    return [[name.strip() for name in group.split("|")] for group in bare.split(",") if group.strip()]


def satisfied(providers: dict[str, str], group: list[str]) -> str:
    """The package that is installed of a group."""
    return next(providers[name] for name in group if name in providers)


def closure(installed: dict[str, Installed], providers: dict[str, str], names: Iterable[str]) -> set[str]:
    """These packages and all that they need."""
    packages, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in packages:
            packages.add(name)
            waiting += [satisfied(providers, group) for group in installed[name].needs]
    return packages

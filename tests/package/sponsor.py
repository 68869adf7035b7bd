"""Runs the checks of a Debian sponsor on the source package, on Debian 12 and 13. They need a network.

The checks are dpkg-buildpackage in a chroot, autopkgtest, and piuparts (installation, upgrade, removal and purge).
lintian runs in a test of this folder.
"""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests import ROOT
from tests.package.machine import boot
from tests.package.packages import Packages, build_packages
from tests.package.trees import HOOK, PACKAGES, RELEASES, debian

# Runs in a chroot of the release, and leaves its tree unchanged. dpkg-buildpackage fails if a dependency is missing.
_BUILD = """
mount -t tmpfs tmpfs "$1/tmp"
mount -t proc proc "$1/proc"
cp "$2"/*.dsc "$2"/*.tar.xz "$1/tmp"
exec chroot "$1" env -i -C /tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent sh -euc \\
    'dpkg-source --extract *.dsc source; cd source; dpkg-buildpackage --no-sign'
"""


def build(release: str, packages: Packages) -> None:
    """The source package builds, and its unit tests pass, with only the declared build dependencies."""
    control = email.message_from_string((packages.sources / "packaging/deb/control").read_text())
    declared = [re.split(r"[ :|]", entry.strip())[0] for entry in control["Build-Depends"].split(",")]
    tree = debian(f"build-{release}", RELEASES[release], ["build-essential", *declared])
    unshare = ("unshare", "--mount", "--net", "--propagation", "private")
    output = _run(*unshare, "sh", "-euc", _BUILD, "sh", tree, packages.folder)
    if not re.search(r"^\d+ passed", output, re.MULTILINE):
        raise RuntimeError(f"no unit test ran:\n{output[-4000:]}")


def piuparts(release: str, packages: Packages) -> None:
    """Installation, upgrade from the older version, removal and purge leave nothing."""
    suite = RELEASES[release]
    tree = debian(f"piuparts-{release}", suite, ["ca-certificates"])
    with tempfile.TemporaryDirectory(prefix="capacityd-") as top:
        subprocess.run(["cp", packages.older, top], check=True)
        with open(Path(top, "Packages"), "w") as index:
            subprocess.run(["dpkg-scanpackages", "."], cwd=top, stdout=index, stderr=subprocess.DEVNULL, check=True)
        _run(
            *("piuparts", f"--existing-chroot={tree}", f"--distribution={suite}", "--no-eatmydata"),
            *("--mirror=http://deb.debian.org/debian main", "--warn-on-usr-move=fail"),
            r"--ignore-regex=/var/cache/debconf/tmp\.ci(/.*)?",  # debconf's own file, in Debian 13
            *(f"--bindmount={top}", f"--extra-repo=deb [trusted=yes] file:{top} ./", packages.current),
        )


def autopkgtest(release: str, packages: Packages) -> None:
    """The tests in packaging/deb pass on the installed package, in a machine with its own systemd.

    The machine is the isolated container that the tests require. It is not reused, so a test may break it.
    """
    system = debian(f"autopkgtest-{release}", RELEASES[release], [*PACKAGES[release], "autopkgtest", "dpkg-dev"], HOOK)
    with boot(system) as node:
        node.unpack(packages.folder, "/srv/built")
        command = "autopkgtest --ignore-restrictions=isolation-container,breaks-testbed /srv/built/*.changes -- null"
        result = node.run("sh", "-c", command, status=None, deadline=600)
    passed = re.findall(r"^(\w+) +PASS$", result.stdout, re.MULTILINE)
    if result.returncode or sorted(passed) != ["commands", "service"]:
        raise RuntimeError(f"autopkgtest: exit status {result.returncode}:\n{result.stdout}{result.stderr}"[-4000:])


STEPS: dict[str, Callable[[str, Packages], None]] = {
    "build": build,
    "autopkgtest": autopkgtest,
    "piuparts": piuparts,
}


def main(chosen: list[str]) -> int:
    """Runs the chosen steps, or all, on each release. Returns the exit status."""
    failed = list[str]()
    with tempfile.TemporaryDirectory(prefix="capacityd-") as top:
        packages = build_packages(Path(top, "packages"), {})
        for name in chosen or STEPS:
            for release in RELEASES:
                try:
                    STEPS[name](release, packages)
                except (AssertionError, RuntimeError, TimeoutError) as e:
                    failed.append(f"{name} on Debian {release}")
                    print(e, file=sys.stderr)
                else:
                    print(f"{name} on Debian {release}: passed", flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


def _run(*command: str | Path) -> str:
    """Runs a command and returns its output. Raises RuntimeError, with the output, if the command fails."""
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode:
        raise RuntimeError(f"{command[0]}: exit status {result.returncode}:\n{result.stdout[-4000:]}")
    return result.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

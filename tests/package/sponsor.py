"""`make sponsor`: what a Debian sponsor runs on the source package, on Debian 12 and 13. It needs a network.

Each step ends with the tool's own verdict: a build with the declared dependencies only, lintian, autopkgtest, piuparts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests import ROOT
from tests.package.machine import machine
from tests.package.packages import Packages, build_packages
from tests.package.test_build import ACCEPTED, lint
from tests.package.trees import HOOK, NODE, RELEASES, debian

# In an overlay on the tree, so that the tree stays as it is. $1: the tree; $2: the folder with the source package.
_BUILD = """
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root /mnt/packages
mount -t overlay -o "lowerdir=$1,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/root
mount -t proc proc /mnt/root/proc
mkdir /mnt/root/packages
mount --bind "$2" /mnt/root/packages
exec chroot /mnt/root sh -euc '
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
apt-get update -qq
apt-get build-dep -qq --yes --no-install-recommends /packages/*.dsc >/dev/null
cd /tmp
dpkg-source --extract /packages/*.dsc source
cd source
dpkg-buildpackage --build=binary --no-sign
cmp ../*.deb /packages/*.deb || [ "$1" != 12 ]' sh "$3"
"""


def build(release: str, packages: Packages) -> None:
    """Builds it with nothing but what Build-Depends names; on Debian 12 the result is ours, bit for bit."""
    tree = debian(f"build-{release}", RELEASES[release], ["build-essential"])
    _run("unshare", "--mount", "--propagation", "private", "sh", "-euc", _BUILD, "sh", tree, packages.folder, release)


def lintian(release: str, packages: Packages) -> None:
    """All tags, as in the tests."""
    result = lint(release, packages)
    if result.stdout or result.returncode:
        raise RuntimeError(f"besides {ACCEPTED[release]}:\n{result.stdout}{result.stderr}")


def autopkgtest(release: str, packages: Packages) -> None:
    """The tests of debian/tests, in a machine of their own."""
    tree = debian(f"autopkgtest-{release}", RELEASES[release], [*NODE, "apt-utils", "autopkgtest"], HOOK)
    with machine(release, tree) as node:
        node.run("sh", "-c", "rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*")
        node.unpack(packages.folder, "/root/packages")
        command = "cd /root/packages && autopkgtest --ignore-restrictions=isolation-container *.dsc *.deb -- null"
        print(node.run("sh", "-c", command, deadline=900).stdout[-1500:], flush=True)


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
            *(f"--bindmount={top}", f"--extra-repo=deb [trusted=yes] file:{top} ./", packages.current),
        )


STEPS: dict[str, Callable[[str, Packages], None]] = {
    "build": build,
    "lintian": lintian,
    "autopkgtest": autopkgtest,
    "piuparts": piuparts,
}


def main(chosen: list[str]) -> int:
    """Runs the chosen steps, or all, on each release. Returns the exit status."""
    failed = list[str]()
    with tempfile.TemporaryDirectory(prefix="capacityd-") as top:
        packages = build_packages(Path(top, "packages"))
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


def _run(*command: str | Path) -> None:
    """Runs it with its output in the error. Raises RuntimeError."""
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode:
        raise RuntimeError(f"{command[0]}: exit status {result.returncode}:\n{result.stdout[-4000:]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The package under test, and machines to put it on."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.package.machine import Machine, machine
from tests.package.packages import NO_TESTS, Packages, build_packages, built_packages
from tests.package.trees import RELEASES


@pytest.fixture(scope="session")
def packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """Built once for all workers of the run. A run of nothing but short tests has no use for the tests of the build."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    top = tmp_path_factory.getbasetemp() if alone else tmp_path_factory.getbasetemp().parent
    with open(top / "packages.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (top / "packages").exists():
            return built_packages(top / "packages")
        short = all(item.get_closest_marker("short") for item in request.session.items)
        return build_packages(top / "packages", NO_TESTS if short else {})


# The virtual machine is of the other one.
_MARKS = {"12": pytest.mark.whole}
_RELEASES = [pytest.param(r, marks=_MARKS.get(r, ()), id=f"debian-{r}") for r in sorted(RELEASES)]


@pytest.fixture(scope="session", params=_RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    param: str = request.param
    return param


@pytest.fixture
def fresh(release: str) -> Iterator[Machine]:
    """A machine of this release, without the package."""
    with machine(release) as running:
        yield running


@pytest.fixture(scope="session")
def twin(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The current package, built again as unlike as can be: elsewhere, with other settings, without the tests."""
    top = tmp_path_factory.mktemp("twin")
    sources, scratch = top / "an other place", top / "scratch"
    scratch.mkdir()
    shutil.copytree(packages.sources, sources, copy_function=shutil.copy)
    subprocess.run(["chmod", "-R", "go=,u+rwX", sources], check=True)
    environment = {
        "TMPDIR": str(scratch),
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "tr_TR.UTF-8",
        "LANGUAGE": "tr",
        "SOURCE": "1",
        **NO_TESTS,
    }
    command: list[str | Path] = ["sh", "-c", 'umask 077; exec sh "$0/packaging/build-deb" "$1"', sources, top / "dist"]
    result = subprocess.run(
        command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin:/usr/sbin", **environment}
    )
    assert result.returncode == 0, result.stderr
    return Path(result.stdout.strip())

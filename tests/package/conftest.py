"""The package under test, and machines to put it on."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import pytest

from tests.package.machine import Machine, machine
from tests.package.packages import Packages, build_packages, built_packages
from tests.package.trees import RELEASES


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """The packages, built once for all workers, without the unit tests of the build."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    top = tmp_path_factory.getbasetemp() if alone else tmp_path_factory.getbasetemp().parent
    with open(top / "packages.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (top / "packages").exists():
            return built_packages(top / "packages")
        return build_packages(top / "packages")


# Debian 12 is marked whole, because tests/machine runs the package on Debian 12.
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

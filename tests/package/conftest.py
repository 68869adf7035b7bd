"""Fixtures: the package under test, and machines for it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import pytest

from tests.package.machine import Machine, machine
from tests.package.packages import Packages, build_packages, built_packages


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """The packages, built once for all workers, without the unit tests of the build."""
    top = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        top = top.parent  # the folder of all workers
    with open(top / "packages.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (top / "packages").exists():
            return built_packages(top / "packages")
        return build_packages(top / "packages")


@pytest.fixture
def fresh() -> Iterator[Machine]:
    """A machine with Debian 13, without the package."""
    with machine("13") as running:
        yield running

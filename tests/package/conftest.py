"""The packages under test, built once from one copy of the sources, and machines to put them on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.package.machine import Machine, machine
from tests.package.trees import RELEASES

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("LICENSE", "README.md", "agent", "conf", "packaging")
OLDER = "0.0.9"


@dataclass(frozen=True, slots=True)
class Packages:
    """sources: what they are built from. folder: what the build of the current one left, also of the source package."""

    sources: Path
    folder: Path
    current: Path
    older: Path


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    top = tmp_path_factory.mktemp("packages")
    sources = top / "sources"
    sources.mkdir()
    # A copy: what is edited meanwhile is not to make two builds differ.
    for name in SOURCES:
        subprocess.run(["cp", "-R", ROOT / name, sources], check=True)
    with ThreadPoolExecutor() as pool:
        current = pool.submit(build, sources, top / "current", environment={"SOURCE": "1"})
        older = pool.submit(build, sources, top / "older", OLDER)
        return Packages(sources, top / "current", current.result(), older.result())


def build(sources: Path, folder: Path, *version: str, environment: Mapping[str, str] | None = None) -> Path:
    """Builds it as `make deb` does; the path of the package."""
    usual = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent"}
    command: list[str | Path] = ["sh", sources / "packaging/deb/build", folder, *version]
    result = subprocess.run(command, capture_output=True, text=True, env={**usual, **(environment or {})}, timeout=120)
    assert result.returncode == 0, result.stderr
    return Path(result.stdout.strip())


@pytest.fixture(scope="session", params=sorted(RELEASES), ids=lambda release: f"debian-{release}")
def release(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def fresh(release: str) -> Iterator[Machine]:
    """A machine of this release, without the package."""
    with machine(release) as running:
        yield running


@pytest.fixture(scope="session")
def twin(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The current package, built again as unlike as can be: elsewhere, by another user's settings."""
    top = tmp_path_factory.mktemp("twin")
    sources, scratch = top / "an other place", top / "scratch"
    scratch.mkdir()
    shutil.copytree(packages.sources, sources, copy_function=shutil.copy)
    subprocess.run(["chmod", "-R", "go=,u+rwX", sources], check=True)
    environment = {"TMPDIR": str(scratch), "TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8", "LANGUAGE": "tr"}
    command: list[str | Path] = ["sh", "-c", 'umask 077; exec sh "$0/packaging/deb/build" "$1"', sources, top / "dist"]
    result = subprocess.run(
        command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin:/usr/sbin", **environment}
    )
    assert result.returncode == 0, result.stderr
    return Path(result.stdout.strip())

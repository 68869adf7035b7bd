"""The packages under test, built once from one copy of the sources."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OLDER = "0.0.9"
_SOURCES = ("LICENSE", "README.md", "agent", "conf", "packaging")


@dataclass(frozen=True, slots=True)
class Packages:
    """sources: what they are built from. folder: what the build of the current one left, also of the source package."""

    sources: Path
    folder: Path
    current: Path
    older: Path


def build_packages(top: Path) -> Packages:
    """Builds the current version, and the same under an older number, into a folder."""
    sources = top / "sources"
    sources.mkdir()
    # A copy: what is edited meanwhile is not to make two builds differ.
    for name in _SOURCES:
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

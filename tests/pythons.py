"""Type checks and unit tests for each of the named Python versions that is on the PATH as python3.X.

Each version gets an environment in build/ with the newest libraries from PyPI that support it, because the pinned
ones may not support an older Python. Versions that are not on the PATH are listed at the end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests import ROOT
from tests.network import persistently

REQUIREMENTS = (
    "--editable=.[service,metrics]",
    *("hypothesis", "mypy", "pytest", "pytest-timeout", "pytest-xdist", "ruff", "shtab", "tomli"),
    "wcwidth",
)
"""The project, and the packages that its unit tests need."""


def usable(version: str) -> str | None:
    """The interpreter of this version, or None. A program on the PATH may be a shim without that version."""
    path = shutil.which(f"python{version}")
    works = path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0
    return path if works else None


def install(folder: Path, python: str) -> None:
    """Creates the environment from scratch. Raises CalledProcessError."""
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    pip = (str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    command = [*pip, *REQUIREMENTS]
    persistently(lambda: subprocess.run(command, check=True, cwd=ROOT), subprocess.CalledProcessError)


def unit(folder: Path) -> bool:
    """Whether the unit tests pass with this environment's Python."""
    workers = str((os.cpu_count() or 1) + 2)
    command = ["pytest", "-q", "-n", workers, "--dist", "worksteal", "tests/unit", "tests/corpus"]
    environment = os.environ | {"HYPOTHESIS_PROFILE": "quick"}
    return subprocess.run([folder / "bin/python", "-m", *command], cwd=ROOT, env=environment).returncode == 0


def types(version: str) -> bool:
    """Whether mypy reports no errors for this version."""
    command = [sys.executable, "-m", "mypy", "--python-version", version]
    return subprocess.run(command, cwd=ROOT).returncode == 0


def main(versions: Sequence[str]) -> int:
    results: dict[str, str] = {}
    for version in versions:
        print(f"== Python {version}", flush=True)
        python = usable(version)
        if python is None:
            results[version] = f"not run: no python{version} on the PATH"
            continue
        folder = ROOT / f"build/python-{version}"
        install(folder, python)
        results[version] = "passed" if all([types(version), unit(folder)]) else "FAILED"
    print("\n".join(f"Python {version}: {result}" for version, result in results.items()))
    return 1 if "FAILED" in results.values() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

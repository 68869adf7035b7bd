"""Types and unit tests for each version of Python that is named and is on the PATH as python3.X.

Each has an environment in build/ with the newest libraries that it can have from PyPI: those that are pinned for the
distribution's Python need not exist for an older one. What is not on the PATH is named at the end.
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

TOOLS = (
    "hypothesis",
    "jsonschema-rs",
    "mypy",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "ruff",
    "shtab",
    "tomli",
    "wcwidth",
)
"""What the unit tests import, and run with."""
PROJECT = "--editable=.[service,metrics]"


def usable(version: str) -> str | None:
    """The interpreter of this version. What is on the PATH may be a shim that knows no such version."""
    path = shutil.which(f"python{version}")
    works = path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0
    return path if works else None


def install(folder: Path, python: str, requirements: Sequence[str], *options: str) -> None:
    """Makes an environment anew. options: for `python -m venv`. Raises CalledProcessError."""
    subprocess.run([python, "-m", "venv", "--clear", *options, folder], check=True)
    pip: list[str | Path] = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    persistently(lambda: subprocess.run([*pip, *requirements], check=True, cwd=ROOT), subprocess.CalledProcessError)


def unit(folder: Path) -> bool:
    """Whether the unit tests pass with the Python of this environment."""
    workers = str((os.cpu_count() or 1) + 2)
    command = ["pytest", "-q", "-n", workers, "--dist", "worksteal", "tests/unit", "tests/corpus"]
    environment = os.environ | {"HYPOTHESIS_PROFILE": "quick"}
    return subprocess.run([folder / "bin/python", "-m", *command], cwd=ROOT, env=environment).returncode == 0


def types(version: str) -> bool:
    """Whether mypy finds nothing for this version."""
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
        install(folder, python, [PROJECT, *TOOLS])
        results[version] = "passed" if all([types(version), unit(folder)]) else "FAILED"
    print("\n".join(f"Python {version}: {result}" for version, result in results.items()))
    return 1 if "FAILED" in results.values() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

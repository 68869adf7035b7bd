"""The wheels and source distributions of a release."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from checkout import PACKAGES, Checkout, ReleaseError, output


def build(checkout: Checkout, folder: Path) -> None:
    """Builds wheels and source distributions. Raises ReleaseError if a wheel differs from the sources."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(checkout.epoch)}
    for project in (checkout.folder, checkout.folder / PACKAGES["kubectl-capacityd"]):
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, project]
        subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    output(folder, sys.executable, "-m", "twine", "check", "--strict", *folder.iterdir())
    for name, modules in PACKAGES.items():
        with zipfile.ZipFile(_wheel(folder, name)) as wheel:
            packed = {path: wheel.read(path) for path in wheel.namelist() if path.endswith(".py")}
        top = checkout.folder / modules
        sources = {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*.py")}
        if packed != sources:
            raise ReleaseError(f"a wheel differs from {modules}/ in {sorted(packed.items() ^ sources.items())[0][0]}")


def _wheel(folder: Path, name: str) -> Path:
    (wheel,) = folder.glob(f"{name.replace('-', '_')}-*.whl")
    return wheel

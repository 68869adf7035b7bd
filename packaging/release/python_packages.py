"""The wheels and source distributions of a release, and a CycloneDX SBOM of each with its dependencies.

package_sbom.py writes those of the .debs, which use the distribution's packages instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from checkout import PACKAGES, Checkout, ReleaseError, output
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


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


def write_sbom(checkout: Checkout, folder: Path, name: str, target: Path) -> None:
    """Installs a package's wheel with the dependencies that pip resolves today, runs it, and writes the SBOM of the
    result. kubectl-capacityd depends on capacityd, whose wheel is in the folder, too."""
    with tempfile.TemporaryDirectory() as scratch:
        output(folder, "/usr/bin/python3", "-m", "venv", "--without-pip", scratch)
        installed = Path(scratch, "bin/python")
        pip = (sys.executable, "-m", "pip", "--python", installed, "install", "--quiet", "--retries=10")
        output(folder, *pip, *sorted({_wheel(folder, "capacityd"), _wheel(folder, name)}))
        said = output(folder, Path(scratch, "bin", name), "--version")
        if said.rpartition(" ")[2] != checkout.version:
            raise ReleaseError(f"the installed wheel says {said}")
        tool = (Path(sys.executable).with_name("cyclonedx-py"), "environment", "--output-reproducible")
        project = checkout.folder if name == "capacityd" else checkout.folder / PACKAGES[name]
        about = ("--spec-version", "1.6", "--pyproject", project / "pyproject.toml", "--output-file", target)
        output(folder, *tool, *about, installed)
    if errors := JsonStrictValidator(SchemaVersion.V1_6).validate_str(target.read_text()):
        raise ReleaseError(f"the SBOM is not valid: {errors}")


def _wheel(folder: Path, name: str) -> Path:
    (wheel,) = folder.glob(f"{name.replace('-', '_')}-*.whl")
    return wheel

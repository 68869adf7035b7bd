"""The wheel and the source distribution of a release, and a CycloneDX SBOM with their dependencies.

package_sbom.py writes that of the .deb, which uses the distribution's packages instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from checkout import Checkout, ReleaseError, output
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def build(checkout: Checkout, folder: Path) -> None:
    """Builds the wheel and the source distribution. Raises ReleaseError if the wheel differs from the sources."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(checkout.epoch)}
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, checkout.folder]
    subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    output(folder, sys.executable, "-m", "twine", "check", "--strict", *folder.iterdir())
    with zipfile.ZipFile(_wheel(folder)) as wheel:
        packed = {name: wheel.read(name) for name in wheel.namelist() if name.startswith("capacityd/")}
    modules = checkout.folder / "agent"
    sources = {str(path.relative_to(modules)): path.read_bytes() for path in modules.rglob("*.py")}
    if packed != sources:
        raise ReleaseError(f"the wheel differs from agent/ in {sorted(packed.items() ^ sources.items())[0][0]}")


def write_sbom(checkout: Checkout, folder: Path, target: Path) -> None:
    """Installs the wheel with the dependencies that pip resolves today, runs it, and writes the SBOM of the result."""
    with tempfile.TemporaryDirectory() as scratch:
        output(folder, "/usr/bin/python3", "-m", "venv", "--without-pip", scratch)
        installed = Path(scratch, "bin/python")
        pip = (sys.executable, "-m", "pip", "--python", installed, "install", "--quiet", "--retries=10")
        output(folder, *pip, _wheel(folder))
        if (said := output(folder, Path(scratch, "bin/capacityd"), "--version")) != f"capacityd {checkout.version}":
            raise ReleaseError(f"the installed wheel says {said}")
        tool = (Path(sys.executable).with_name("cyclonedx-py"), "environment", "--output-reproducible")
        about = ("--spec-version", "1.6", "--pyproject", checkout.folder / "pyproject.toml", "--output-file", target)
        output(folder, *tool, *about, installed)
    if errors := JsonStrictValidator(SchemaVersion.V1_6).validate_str(target.read_text()):
        raise ReleaseError(f"the SBOM is not valid: {errors}")


def _wheel(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel

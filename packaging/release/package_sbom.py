"""A CycloneDX SBOM of the .deb: the packages that it depends on. apt chooses their versions when it installs them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from checkout import ReleaseError, output
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def write_package_sbom(folder: Path, name: str, target: Path) -> None:
    """Writes the SBOM of the package with this name in the folder. Raises ReleaseError if it is not valid."""
    (deb,) = folder.glob(f"{name}_*_all.deb")
    version, depends = (output(folder, "dpkg-deb", "--field", deb, field) for field in ("Version", "Depends"))
    own = f"pkg:deb/debian/{name}@{version}?arch=all"
    packages = {package: f"pkg:deb/debian/{package}" for package in sorted(dependencies(depends))}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": own, "name": name, "version": version, "purl": own}
        },
        "components": [
            {
                "type": "library",
                "bom-ref": url,
                "name": package,
                "purl": url,
                "properties": [{"name": "deb:depends", "value": text} for text in dependencies(depends)[package]],
            }
            for package, url in packages.items()
        ],
        "dependencies": [{"ref": own, "dependsOn": [*packages.values()]}],
    }
    text = json.dumps(document, indent=2) + "\n"
    if errors := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ReleaseError(f"the SBOM of the package is not valid: {errors}")
    target.write_text(text)


def dependencies(depends: str) -> dict[str, list[str]]:
    """Returns name -> the dependencies that name it, of a field Depends (deb-control(5)). All alternatives count."""
    found: dict[str, list[str]] = {}
    for dependency in depends.split(", "):
        for name in re.findall(r"(?:^|\| )([a-z0-9.+-]+)", dependency):
            found.setdefault(name, []).append(dependency)
    return found

"""python packaging/release VERSION FOLDER KEY...: makes and checks a release, and publishes nothing.

The source is the tag vVERSION. FOLDER must not exist; it is created only if every check passes. KEY: the fingerprint
of a signing key in the GnuPG keyring.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import archive
import package_sbom
import python_packages
from checkout import PACKAGES, ReleaseError, clone, output, release_notes

ROOT = Path(__file__).resolve().parents[2]


def main(version: str, folder: Path, keys: list[str]) -> None:
    """Makes the release in a temporary folder beside the target, then moves it there."""
    if folder.exists():
        raise ReleaseError(f"{folder} exists: remove it first")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".release-", dir=folder.parent) as scratch:
        made = Path(scratch, folder.name)
        made.mkdir(mode=0o755)
        checkout = clone(ROOT, version, Path(scratch, "source"))
        (made / "release-notes.md").write_text(release_notes(checkout))
        archive.build_packages(checkout, made / "debian")
        python_packages.build(checkout, made / "python")
        for name in PACKAGES:
            python_packages.write_sbom(checkout, made / "python", name, made / f"{name}-{version}.cdx.json")
            package_sbom.write_package_sbom(made / "debian", name, made / f"{name}-{version}.deb.cdx.json")
        output(checkout.folder, "sh", "packaging/site/build", Path(sys.executable).parent, made / "site")
        archive.make_repository(made / "debian", made / "apt", keys)
        archive.sign_checksums(made, keys)
        made.rename(folder)
    print(f"{folder} is ready to be published:")
    for path in sorted(folder.iterdir()):
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        print(f"  {path.name:32} {len(files):4} files {sum(p.stat().st_size for p in files) / 1000:8.0f} kB")


_, version, folder, *keys = sys.argv
if missing := [
    text
    for text, given in (("VERSION, such as 1.2.3", version), ("KEY, the fingerprint of the key that signs", keys))
    if not given
]:
    sys.exit(f"no release: {' and '.join(missing)} is missing: make release VERSION=1.2.3 KEY=FINGERPRINT")
try:
    os.umask(0o022)
    main(version, Path(folder).resolve(), keys)
except ReleaseError as e:
    sys.exit(f"no release: {e}")
except subprocess.CalledProcessError as e:
    sys.exit(f"no release: {' '.join(map(str, e.cmd))}: exit status {e.returncode}\n{e.stdout or ''}{e.stderr or ''}")

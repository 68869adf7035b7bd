"""The Debian packages of a release, their apt repository, and the signed checksums."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from checkout import Checkout, ReleaseError, output

_DISTRIBUTIONS = """\
Origin: capacityd
Label: capacityd
Codename: stable
Description: capacityd for Debian and Ubuntu
Architectures: amd64 arm64 armhf i386 ppc64el riscv64 s390x source
Components: main
SignWith: {keys}
"""
_KEYRING = "capacityd-archive-keyring.asc"


def build_packages(checkout: Checkout, folder: Path) -> None:
    """Builds the source and binary packages twice, in different environments. Raises ReleaseError if they differ."""
    again = folder.with_name("another place")
    _build(checkout, folder, {})
    other = {"TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8", "LANGUAGE": "tr"}
    _build(checkout, again, {"DEB_BUILD_OPTIONS": "nocheck", **other}, umask=0o077)
    for path in folder.iterdir():
        if path.suffix in (".deb", ".dsc", ".xz") and path.read_bytes() != (again / path.name).read_bytes():
            raise ReleaseError(f"a second build made another {path.name}")
    shutil.rmtree(again)


def make_repository(packages: Path, folder: Path, keys: Sequence[str]) -> None:
    """Makes an apt repository of these packages, signs it with all keys, and verifies the signatures."""
    (folder / "conf").mkdir(parents=True)
    (folder / "conf/distributions").write_text(_DISTRIBUTIONS.format(keys=" ".join(keys)))
    (source,) = packages.glob("*.dsc")
    reprepro = ("reprepro", "--silent", "--basedir", folder, "--section", "admin", "--priority", "optional")
    output(packages, *reprepro, "includedsc", "stable", source)
    for binary in sorted(packages.glob("*.deb")):
        output(packages, *reprepro, "includedeb", "stable", binary)
    for private in ("conf", "db"):
        shutil.rmtree(folder / private)
    (folder / _KEYRING).write_text(output(folder, "gpg", "--armor", "--export", *keys) + "\n")
    _verify(folder / _KEYRING, [folder / "dists/stable/InRelease"])


def sign_checksums(folder: Path, keys: Sequence[str]) -> None:
    """Writes SHA256SUMS for all files in the folder, signs it, and verifies the sums and the signature."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in paths)
    (folder / "SHA256SUMS").write_text("".join(sums))
    users = [word for key in keys for word in ("--local-user", key)]
    output(folder, "gpg", "--batch", "--armor", *users, "--detach-sign", "SHA256SUMS")
    output(folder, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
    _verify(folder / "apt" / _KEYRING, [folder / "SHA256SUMS.asc", folder / "SHA256SUMS"])


def _build(checkout: Checkout, folder: Path, environment: dict[str, str], umask: int = 0o022) -> None:
    command = ["sh", "packaging/build-deb", folder]
    subprocess.run(
        command,
        cwd=checkout.folder,
        check=True,
        stdout=subprocess.DEVNULL,
        umask=umask,
        env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SOURCE": "1", **environment},
    )


def _verify(keyring: Path, signed: Sequence[Path]) -> None:
    """Verifies a signature with only the published key."""
    with tempfile.TemporaryDirectory() as scratch:
        output(keyring.parent, "gpg", "--dearmor", "--output", Path(scratch, "key.gpg"), keyring)
        output(keyring.parent, "gpgv", "--keyring", Path(scratch, "key.gpg"), *signed)

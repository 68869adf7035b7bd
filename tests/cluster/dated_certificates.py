"""Certificates that are not valid yet, or that expire soon."""

from __future__ import annotations

import shutil
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

from tests.cluster.credentials import Authority

_CONFIGURATION = """\
[ca]
default_ca = one
[one]
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
policy = names
copy_extensions = copy
[names]
organizationName = optional
commonName = supplied
"""


def late_authority(authority: Authority, folder: Path, seconds: float) -> Authority:
    """The same authority in a new folder, with a server's certificate that becomes valid after this many seconds."""
    late = _copy(authority, folder)
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
    _sign(late, late.key("server"), "/CN=localhost", (seconds, seconds + 86_400), "-addext", names)
    return late


def short_lived_client(authority: Authority, folder: Path, user: str, group: str, seconds: float) -> Path:
    """Writes a certificate that expires after this many seconds, and its key, to one file. Returns it.

    folder: is created.
    """
    short = _copy(authority, folder)
    key = short.key("client")
    subject = f"/O={group}/CN={user}"
    certificate = _sign(short, key, subject, (-60, seconds), "-addext", "extendedKeyUsage=clientAuth")
    path = folder / "client.pem"
    path.touch(0o600)
    path.write_text(certificate.read_text() + key.read_text())
    return path


def _copy(authority: Authority, folder: Path) -> Authority:
    folder.mkdir()
    for name in ("ca.crt", "ca.key", "openssl.cnf"):
        shutil.copy(authority.folder / name, folder)
    (folder / "ca.cnf").write_text(_CONFIGURATION.format(folder=folder))
    (folder / "index").touch()
    (folder / "serial").write_text("1001")
    return Authority(folder)


def _sign(authority: Authority, key: Path, subject: str, valid: tuple[float, float], *extensions: str) -> Path:
    """Makes a certificate. valid: from and until when, in seconds from now."""
    folder, certificate, request = authority.folder, key.with_suffix(".crt"), key.with_suffix(".csr")
    options: tuple[str | Path, ...] = ("-config", folder / "openssl.cnf", "-subj", subject, *extensions, "-key", key)
    _openssl("req", "-new", *options, "-out", request)
    begin, end = (datetime.now(timezone.utc) + timedelta(seconds=seconds) for seconds in valid)
    dates = ("-startdate", f"{begin:%Y%m%d%H%M%SZ}", "-enddate", f"{end:%Y%m%d%H%M%SZ}")
    signer = ("-config", folder / "ca.cnf", "-cert", authority.ca_file, "-keyfile", folder / "ca.key")
    _openssl("ca", "-batch", "-notext", *signer, "-in", request, *dates, "-out", certificate)
    return certificate


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

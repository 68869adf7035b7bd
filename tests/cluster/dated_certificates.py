"""Certificates that are not valid yet."""

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
commonName = supplied
"""


def late_authority(authority: Authority, folder: Path, seconds: float) -> Authority:
    """The same authority in a new folder, with a server's certificate that becomes valid after this many seconds."""
    folder.mkdir()
    for name in ("ca.crt", "ca.key", "openssl.cnf"):
        shutil.copy(authority.folder / name, folder)
    (folder / "ca.cnf").write_text(_CONFIGURATION.format(folder=folder))
    (folder / "index").touch()
    (folder / "serial").write_text("1001")
    late = Authority(folder)
    key = late.key("server")
    names: tuple[str | Path, ...] = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    _openssl("req", "-new", "-config", folder / "openssl.cnf", *names, "-key", key, "-out", folder / "server.csr")
    begin = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    dates = ("-startdate", f"{begin:%Y%m%d%H%M%SZ}", "-enddate", f"{begin + timedelta(days=1):%Y%m%d%H%M%SZ}")
    signer = ("-config", folder / "ca.cnf", "-cert", late.ca_file, "-keyfile", folder / "ca.key")
    files = ("-in", folder / "server.csr", "-out", folder / "server.crt")
    _openssl("ca", "-batch", "-notext", *signer, *dates, *files)
    return late


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

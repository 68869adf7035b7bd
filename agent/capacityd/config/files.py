"""Which files make up the configuration, in which order, and their text.

Names merge and mask as in the UAPI configuration files specification, but that the main file stands between the
vendors' files and the administrator's.
"""

from __future__ import annotations

import errno
import os
import stat

from capacityd.errors import ConfigError

MOST = 1 << 20
"""Bytes that a file may have."""

# Later ones mask. Not the specification's /run/capacityd: the service's own files are there, and go when it stops.
_VENDORS = ("usr/lib/capacityd/conf.d", "usr/local/lib/capacityd/conf.d")
_MAIN = "etc/capacityd/capacityd.toml"
_LOCAL = "etc/capacityd/conf.d"
_WHY = {
    errno.ENOENT: "is a link that leads nowhere; mend or remove it",
    errno.EACCES: "may not be read by this user; run as root, or let this user read it",
}


def usual_files(root: str, failures: dict[str, str]) -> list[str]:
    """The files in the usual places, in the order in which they count; later ones override.

    root: what stands for /. failures: gets each folder that can't be listed, and why.
    """
    vendors: dict[str, str] = {}
    for folder in _VENDORS:
        vendors |= _listed(os.path.join(root, folder), failures)
    local = _listed(os.path.join(root, _LOCAL), failures)
    main = os.path.join(root, _MAIN)
    return [
        *(path for name, path in sorted(vendors.items()) if name not in local),
        *([main] if os.path.lexists(main) else []),
        *(path for _, path in sorted(local.items())),
    ]


def files_at(path: str, failures: dict[str, str]) -> list[str]:
    """The file at this path, or those in the folder there. failures: gets what is wrong with the path itself."""
    if not os.path.isdir(path):
        if not os.path.lexists(path):
            failures[path] = "there is no such file or folder"
            return []
        return [path]
    found = _listed(path, failures)
    if not found and not failures:
        failures[path] = "this folder holds no file whose name ends with .toml"
    return [path for _, path in sorted(found.items())]


def read(path: str) -> str:
    """A file's text; "" for an empty one and for /dev/null, which mask. Raises ConfigError that says why it can't."""
    try:
        # Looked at before it is opened: opening may already do something to a device, or wait for a pipe's other end.
        found = os.stat(path)
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(1, 3):
            return ""
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError("is no regular file")
        if found.st_mode & stat.S_IWOTH:
            raise ConfigError(f"may be written by anybody, and can name programs that run as root: chmod o-w {path}")
        with open(path, "rb") as file:
            raw = file.read(MOST + 1)
    except OSError as e:
        raise ConfigError(_WHY.get(e.errno or 0, f"can't be read: {e.strerror}")) from e
    if len(raw) > MOST:
        raise ConfigError("is larger than 1 MiB; is it the right file?")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = e.object.count(b"\n", 0, e.start) + 1
        raise ConfigError(
            f"is not UTF-8: line {line} holds the byte 0x{e.object[e.start]:02x}; save it as UTF-8"
        ) from e


def _listed(folder: str, failures: dict[str, str]) -> dict[str, str]:
    """Name -> path of a folder's .toml files. Hidden ones are editors' locks and swap files."""
    try:
        names = os.listdir(folder)
    except OSError as e:
        # A folder that is missing is fine, but not one that should be there: what it would say is not "nothing".
        if e.errno != errno.ENOENT or any(map(_leads_nowhere, (folder, os.path.dirname(folder)))):
            failures[folder] = _WHY.get(e.errno or 0, f"can't be read: {e.strerror}")
        return {}
    return {n: os.path.join(folder, n) for n in names if n.endswith(".toml") and not n.startswith(".")}


def _leads_nowhere(path: str) -> bool:
    return os.path.islink(path) and not os.path.exists(path)

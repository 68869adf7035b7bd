"""Which files make up the configuration, in which order, and their text.

File names merge and mask as in the UAPI configuration files specification, except that the main file comes after the
vendors' files and before the administrator's.
"""

from __future__ import annotations

import errno
import os
import stat

from capacityd.model.errors import ConfigError

MAX_FILE_BYTES = 1 << 20

# Later folders mask earlier ones. The specification's /run/capacityd is left out: it holds the service's own files, and
# systemd removes it when the service stops.
_VENDORS = ("usr/lib/capacityd/conf.d", "usr/local/lib/capacityd/conf.d")
_MAIN = "etc/capacityd/capacityd.toml"
_LOCAL = "etc/capacityd/conf.d"
_REASONS = {
    errno.ENOENT: "is a dangling symbolic link; fix or remove it",
    errno.EACCES: "is not readable by this user; run as root, or grant read permission",
}


def usual_files(root: str, failures: dict[str, str]) -> list[str]:
    """The paths of the files in the usual places, in the order in which they are merged; later ones override.

    root: the folder used as /. failures: receives each folder that cannot be listed, with the reason.
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
    """The file at this path, or those in the folder there. failures: receives the path if it holds none."""
    if not os.path.isdir(path):
        if not os.path.lexists(path):
            failures[path] = "no such file or folder"
            return []
        return [path]
    found = _listed(path, failures)
    if not found and not failures:
        failures[path] = "contains no file whose name ends with .toml"
    return [path for _, path in sorted(found.items())]


def read(path: str) -> str:
    """A file's text; "" for /dev/null, which masks as an empty file does. Raises ConfigError with the reason."""
    try:
        # Before open(), which can have an effect on a device and can wait for the other end of a pipe.
        found = os.stat(path)
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(1, 3):
            return ""
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError("is not a regular file")
        if found.st_mode & stat.S_IWOTH:
            raise ConfigError(f"is writable by everybody, but can name programs that run as root: chmod o-w {path}")
        with open(path, "rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as e:
        raise ConfigError(_REASONS.get(e.errno or 0, f"cannot be read: {e.strerror}")) from e
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError("is larger than 1 MiB; is it the right file?")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = e.object.count(b"\n", 0, e.start) + 1
        why = f"is not UTF-8: it has the byte 0x{e.object[e.start]:02x}; save it as UTF-8"
        raise ConfigError(why, line) from e


def _listed(folder: str, failures: dict[str, str]) -> dict[str, str]:
    """Name -> path of a folder's .toml files, without hidden ones (editors' locks and swap files)."""
    try:
        names = os.listdir(folder)
    except OSError as e:
        # A missing folder is empty; one behind a dangling link is unknown, and must not remove anything from the Node.
        if e.errno != errno.ENOENT or any(map(_is_dangling, (folder, os.path.dirname(folder)))):
            failures[folder] = _REASONS.get(e.errno or 0, f"cannot be read: {e.strerror}")
        return {}
    return {n: os.path.join(folder, n) for n in names if n.endswith(".toml") and not n.startswith(".")}


def _is_dangling(path: str) -> bool:
    return os.path.islink(path) and not os.path.exists(path)

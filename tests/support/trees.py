"""Builds recordings of machines with the layout of the kernel's /sys, merges them, and writes them as real files."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

Recording = dict[str, Any]
"""A recording that capacityd.host.recording.replay reads."""


def merge(*parts: Mapping[str, Any]) -> Recording:
    """Merges recordings. If several describe the same path, the last one counts."""
    whole: Recording = {}
    for part in parts:
        for name, value in part.items():
            if isinstance(value, Mapping):
                whole[name] = {**whole.get(name, {}), **value}
            else:
                whole[name] = value
    return whole


def files(contents: Mapping[str, str]) -> Recording:
    """Plain files by path."""
    return {"files": dict(contents)}


def errors(codes: Mapping[str, str]) -> Recording:
    """Paths that can't be read, with the name of the error: {"/sys/…/speed": "EINVAL"}."""
    return {"errors": dict(codes)}


class Tree:
    """Collects files and links."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.links: dict[str, str] = {}
        self.errors: dict[str, str] = {}

    def attributes(self, folder: str, contents: Mapping[str, str]) -> None:
        self.files |= {f"{folder}/{name}": text for name, text in contents.items()}

    def link(self, path: str, target: str) -> None:
        self.links[path] = os.path.relpath(target, os.path.dirname(path))

    def device(self, path: str, bus: str, driver: str | None, uevent: Sequence[str]) -> None:
        """A device on a bus, with its driver."""
        self.attributes(f"/sys/bus/{bus}", {"uevent": ""})
        self.link(f"/sys/bus/{bus}/devices/{path.rpartition('/')[2]}", path)
        self.link(f"{path}/subsystem", f"/sys/bus/{bus}")
        if driver is not None:
            self.attributes(f"/sys/bus/{bus}/drivers/{driver}", {"uevent": ""})
            self.link(f"{path}/driver", f"/sys/bus/{bus}/drivers/{driver}")
            uevent = [*uevent, f"DRIVER={driver}"]
        self.attributes(path, {"uevent": "\n".join(uevent) + "\n"})

    def block(self, name: str, path: str, number: str, devtype: str) -> None:
        """Adds a block device, and the links to it. number: its major and minor number. devtype: disk or partition."""
        major, minor = number.split(":")
        uevent = f"MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\nDEVTYPE={devtype}\n"
        self.attributes(path, {"dev": f"{number}\n", "uevent": uevent})
        self.link(f"{path}/subsystem", "/sys/class/block")
        self.link(f"/sys/class/block/{name}", path)
        self.link(f"/sys/dev/block/{number}", path)
        if devtype == "disk":
            self.link(f"/sys/block/{name}", path)

    def recording(self, properties: Mapping[str, Mapping[str, str]] | None = None) -> Recording:
        return {
            "files": self.files,
            "links": self.links,
            "errors": self.errors,
            "properties": {path: dict(values) for path, values in (properties or {}).items()},
        }


def write_tree(recording: Mapping[str, Any], folder: str) -> None:
    """Writes a recording without errors as real files and links in a folder, with udev's database in run/udev/data."""
    if recording.get("errors"):
        raise ValueError("the recording has a file that can't be read; no ordinary folder can contain one")
    for path in recording.get("folders", ()):
        os.makedirs(folder + path, exist_ok=True)
    for path, text in recording.get("files", {}).items():
        _write(folder + path, text)
    for path, target in recording.get("links", {}).items():
        os.makedirs(os.path.dirname(folder + path), exist_ok=True)
        os.symlink(target, folder + path)
    os.makedirs(f"{folder}/run/udev/data", exist_ok=True)
    _write(f"{folder}/run/udev/control", "")
    for path, values in recording.get("properties", {}).items():
        entry = "".join(f"E:{name}={value}\n" for name, value in values.items())
        # I: when udev initialized the device. V: the version of the format.
        _write(f"{folder}/run/udev/data/{_database_id(recording, path)}", f"I:1\n{entry}V:1\n")


UNPRIVILEGED = "setpriv --bounding-set=-dac_override,-dac_read_search"
"""The start of a command line that runs as root without the right to ignore file modes."""

_BIND, _DETACH = 4096, 2  # MS_BIND, MNT_DETACH


@contextmanager
def unreadable(path: str, fault: str) -> Iterator[None]:
    """Makes a real path unreadable until the context ends, in a new mount namespace.

    fault: EIO (for a file), EACCES (a file or a folder, in an UNPRIVILEGED process), dangling or ELOOP (for a link).
    """
    if fault == "EIO":
        libc = ctypes.CDLL(None, use_errno=True)
        # Reading a process's memory fails at address 0, where nothing is mapped.
        if libc.mount(b"/proc/self/mem", os.fsencode(path), None, _BIND, None):
            raise OSError(ctypes.get_errno(), f"mount {path}")
        yield
        libc.umount2(os.fsencode(path), _DETACH)
    elif fault == "EACCES":
        mode = os.stat(path).st_mode
        os.chmod(path, 0)
        yield
        os.chmod(path, mode)
    else:
        target = os.readlink(path)
        _replace_link(path, "gone" if fault == "dangling" else os.path.basename(path))
        yield
        _replace_link(path, target)


def _replace_link(link: str, target: str) -> None:
    os.unlink(link)
    os.symlink(target, link)


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as f:
        f.write(text)


def _database_id(recording: Mapping[str, Any], path: str) -> str:
    """The name of udev's file about a device: the device's number or, without one, its subsystem and name."""
    pairs = (line.partition("=") for line in recording["files"][f"{path}/uevent"].splitlines())
    uevent = {name: value for name, _, value in pairs}
    subsystem = recording["links"][f"{path}/subsystem"].rpartition("/")[2]
    if "IFINDEX" in uevent:
        return f"n{uevent['IFINDEX']}"
    if "MAJOR" in uevent:
        return f"{'b' if subsystem == 'block' else 'c'}{uevent['MAJOR']}:{uevent['MINOR']}"
    return f"+{subsystem}:{path.rpartition('/')[2]}"

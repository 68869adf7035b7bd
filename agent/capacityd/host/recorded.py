"""A recorded machine: the files, links, udev properties and answers of another machine, held in memory.

A recording is JSON: {"files": {PATH: TEXT}, "links": {PATH: TARGET}, "errors": {PATH: ERRNO-NAME},
"properties": {PATH: {NAME: VALUE}}, "hardware_names": {MODALIAS: {NAME: VALUE}},
"link_speeds": {INTERFACE: [BIT/S]}, "link_kinds": {INTERFACE: TEXT}, "default_interfaces": [NAME],
"ages": {PATH: SECONDS}, "programs": {COMMAND-AS-JSON: [STATUS, OUT, ERR]}, "arch": TEXT, "hostname": TEXT}; every
part may be missing.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.errors import HostError, UsageError
from capacityd.host import Content, Output, printable

_MOST = 65536
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO)
_PARTS = (
    "files",
    "links",
    "errors",
    "properties",
    "hardware_names",
    "link_speeds",
    "link_kinds",
    "default_interfaces",
    "ages",
    "programs",
    "arch",
    "hostname",
)


def load(path: str) -> RecordedHost:
    """The machine that a file holds. Raises UsageError if it is no recording."""
    try:
        with open(path, encoding="utf-8") as f:
            found = json.load(f)
    except OSError as e:
        raise UsageError(f"{path}: could not be read: {os.strerror(e.errno or 0)}") from e
    except ValueError as e:
        raise UsageError(f"{path}: is not JSON: {e}") from e
    if not isinstance(found, dict) or not set(found) <= set(_PARTS):
        raise UsageError(f"{path}: is not a recorded machine; one has the parts {', '.join(_PARTS)}")
    return RecordedHost(found)


class RecordedHost:
    """Another machine, or one that never was."""

    def __init__(self, recording: Mapping[str, Any]) -> None:
        self._files: Mapping[str, str] = recording.get("files", {})
        self._links: Mapping[str, str] = recording.get("links", {})
        self._errors: Mapping[str, str] = recording.get("errors", {})
        self._properties: Mapping[str, Mapping[str, str]] = recording.get("properties", {})
        self._recording = recording
        self._folders: dict[str, set[str]] = {}
        for path in [*self._files, *self._links, *self._errors, *self._properties]:
            folder, _, name = path.rpartition("/")
            while name and name not in self._folders.setdefault(folder, set()):
                self._folders[folder].add(name)
                folder, _, name = folder.rpartition("/")

    def names(self, folder: str) -> Sequence[str]:
        real = self._real(folder)
        if real not in self._folders and folder.startswith("/sys/") and "/sys/devices" not in self._folders:
            raise HostError(f"{folder} does not exist", errno.ENOENT)  # the machine was recorded without a sysfs
        return sorted(self._folders.get(real or "", ()))

    def text(self, path: str) -> str | None:
        found = self._files.get(self._real(path) or "")
        if found is not None and len(found.encode("utf-8", "surrogatepass")) > _MOST:
            raise HostError(f"{path} holds more than {_MOST} bytes")
        return None if found is None else printable(found.strip(" \t\n\0"))

    def resolve(self, path: str) -> str | None:
        real = self._real(path)
        known = real in self._folders or real in self._files or real in self._properties
        return real if known else None

    def properties(self, device: str) -> Mapping[str, str]:
        return {printable(k): printable(v) for k, v in self._properties.get(self._known(device), {}).items()}

    def hardware_names(self, modalias: str) -> Mapping[str, str]:
        found = self._recording.get("hardware_names", {}).get(modalias, {})
        return {printable(k): printable(v) for k, v in found.items()}

    def link_speeds(self, interface: str) -> Sequence[int]:
        found: Sequence[int] | None = self._recording.get("link_speeds", {}).get(interface)
        if found is None:
            raise HostError(f"the recording does not tell the link modes of {interface}", errno.ENODEV)
        return found

    def link_kind(self, interface: str) -> str:
        found: str | None = self._recording.get("link_kinds", {}).get(interface)
        if found is None:
            raise HostError(f"the recording does not tell the kind of {interface}", errno.ENODEV)
        return found

    def default_interfaces(self) -> Sequence[str]:
        found: Sequence[str] | None = self._recording.get("default_interfaces")
        if found is None:
            raise HostError("the recording does not tell the default routes")
        return found

    def lines(self, path: str) -> Sequence[str]:
        found = self._files.get(self._real(path) or "", "")
        return [printable(line) for line in found.replace("\0", "\n").replace("\t", " ").split("\n") if line]

    def content(self, path: str, most: int) -> Content:
        found = self._files.get(self._known(path))
        if found is None:
            raise HostError(f"{path} does not exist", errno.ENOENT)
        if len(found.encode("utf-8", "surrogatepass")) > most:
            raise HostError(f"{path} holds more than {most} bytes")
        return Content(printable(found.strip()), float(self._recording.get("ages", {}).get(path, 0)))

    def run(self, command: Sequence[str], timeout: float) -> Output:
        found = self._recording.get("programs", {}).get(json.dumps(list(command)))
        if found is None:
            raise HostError(f"the recording does not tell what {command[0]} says")
        return Output(int(found[0]), printable(found[1].strip()), printable(found[2].strip()))

    def changed(self, path: str) -> float | None:
        return None  # a recording is of hardware; no kubelet runs on it

    def arch(self) -> str:
        return str(self._recording.get("arch", "x86_64"))

    def hostname(self) -> str:
        return str(self._recording.get("hostname", "recorded"))

    def _real(self, path: str) -> str | None:
        """As _known, but None where the kernel says that there is no such thing."""
        try:
            return self._known(path)
        except HostError as e:
            if e.errno in _GONE:
                return None
            raise

    def _known(self, path: str) -> str:
        """The path with every link in it followed. Raises HostError where the recording has an error."""
        parts, real, hops = [p for p in path.split("/") if p], "", 0
        while parts:
            real = os.path.normpath(f"{real}/{parts.pop(0)}")
            if real in self._errors:
                code: int = getattr(errno, self._errors[real])
                raise HostError(f"{path} could not be read: {os.strerror(code)}", code)
            target = self._links.get(real)
            if target is not None:
                hops += 1
                if hops > 40:
                    raise HostError(f"{path} could not be read: {os.strerror(errno.ELOOP)}", errno.ELOOP)
                full = os.path.normpath(target if target.startswith("/") else f"{real.rpartition('/')[0]}/{target}")
                parts, real = [p for p in full.split("/") if p] + parts, ""
        return real

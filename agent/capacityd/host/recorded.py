"""A recorded machine: the files, links, udev properties and answers of another machine, held in memory.

A recording is JSON: {"files": {PATH: TEXT}, "links": {PATH: TARGET}, "errors": {PATH: ERRNO-NAME},
"properties": {PATH: {NAME: VALUE}}, "link_speeds": {INTERFACE: [BIT/S]}, "ages": {PATH: SECONDS},
"programs": {COMMAND-AS-JSON: [STATUS, OUT, ERR]}, "arch": TEXT, "hostname": TEXT}; every part may be missing.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.errors import HostError, UsageError
from capacityd.host import Content, Output, printable

_PARTS = ("files", "links", "errors", "properties", "link_speeds", "ages", "programs", "arch", "hostname")


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
        return sorted(self._folders.get(self._known(folder), ()))

    def text(self, path: str) -> str | None:
        found = self._files.get(self._known(path))
        return None if found is None else printable(found.strip(" \t\n\0"))

    def resolve(self, path: str) -> str | None:
        real = self._known(path)
        return real if real in self._folders or real in self._files or real in self._properties else None

    def properties(self, device: str) -> Mapping[str, str]:
        return {printable(k): printable(v) for k, v in self._properties.get(self._known(device), {}).items()}

    def link_speeds(self, interface: str) -> Sequence[int]:
        found: Sequence[int] | None = self._recording.get("link_speeds", {}).get(interface)
        if found is None:
            raise HostError(f"the recording does not tell the link modes of {interface}", errno.ENODEV)
        return found

    def lines(self, path: str) -> Sequence[str]:
        found = self._files.get(self._known(path), "")
        return [printable(line) for line in found.replace("\0", "\n").split("\n") if line]

    def content(self, path: str, most: int) -> Content:
        found = self._files.get(self._known(path))
        if found is None:
            raise HostError(f"{path} does not exist", errno.ENOENT)
        if len(found.encode()) > most:
            raise HostError(f"{path} holds more than {most} bytes")
        return Content(printable(found.strip()), float(self._recording.get("ages", {}).get(path, 0)))

    def run(self, command: Sequence[str], timeout: float) -> Output:
        found = self._recording.get("programs", {}).get(json.dumps(list(command)))
        if found is None:
            raise HostError(f"the recording does not tell what {command[0]} says")
        return Output(int(found[0]), printable(found[1].strip()), printable(found[2].strip()))

    def arch(self) -> str:
        return str(self._recording.get("arch", "x86_64"))

    def hostname(self) -> str:
        return str(self._recording.get("hostname", "recorded"))

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

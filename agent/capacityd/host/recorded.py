"""A recorded machine: the files, links, udev properties and answers of another machine, held in memory.

A recording is JSON, which gzip may have compressed: {"files": {PATH: TEXT}, "links": {PATH: TARGET},
"errors": {PATH: ERRNO-NAME}, "folders": [PATH], "properties": {PATH: {NAME: VALUE}},
"hardware_names": {MODALIAS: {NAME: VALUE}}, "link_speeds": {INTERFACE: [BIT/S]}, "link_kinds": {INTERFACE: TEXT},
"default_interfaces": [NAME], "addresses": [[INTERFACE, FAMILY, ADDRESS, PREFIX, SCOPE, TEMPORARY]],
"filesystem_sizes": {MOUNT-POINT: BYTES}, "ages": {PATH: SECONDS}, "programs": {COMMAND-AS-JSON: [STATUS, OUT, ERR]},
"arch": TEXT, "hostname": TEXT,
"unknown": {QUESTION: [ERRNO-NAME or null, MESSAGE]}, "redacted": true}; every part may be missing.
Bytes that are no UTF-8 stand as lone surrogates. folders: those that hold nothing recorded. errors: what can't be read
at these paths, nor below them; ENODATA is what record leaves out. unknown: what the machine could not tell, such as
"properties /sys/…", "link_speeds eth0" and "filesystem_sizes /mnt 29" (a mount's id).
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from capacityd.errors import HostError, UsageError
from capacityd.host import Address, Content, Output
from capacityd.printable import printable

_MOST = 65536
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO)
_MOST_JSON = 1 << 30
_GZIP = b"\x1f\x8b"


def load(path: str) -> RecordedHost:
    """The machine that a file holds. Raises UsageError if it is no recording."""
    return RecordedHost(recording_in(path))


def recording_in(path: str) -> Mapping[str, Any]:
    """What a file holds, checked. Raises UsageError if it is no recording."""
    try:
        with open(path, "rb") as f:
            raw = f.read(_MOST_JSON)
        found = json.loads(_unpacked(raw) if raw.startswith(_GZIP) else raw)
    except OSError as e:
        raise UsageError(f"{path}: could not be read: {e.strerror or e}") from e
    except EOFError as e:
        raise UsageError(f"{path}: is cut off") from e
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{path}: is not JSON: {e}") from e
    if not isinstance(found, dict) or not set(found) <= set(_PARTS):
        raise UsageError(f"{path}: is not a recorded machine; one has the parts {', '.join(_PARTS)}")
    for part, value in found.items():
        if not _PARTS[part](value):
            raise UsageError(f'{path}: its part "{part}" is not what a recorded machine has there')
    return found


def _unpacked(raw: bytes) -> bytes:
    import gzip
    import io
    import zlib

    try:
        return gzip.GzipFile(fileobj=io.BytesIO(raw)).read(_MOST_JSON)
    except zlib.error as e:
        raise OSError(str(e)) from e


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(type(v) is int for v in value)


def _is_error(value: object) -> bool:
    return isinstance(value, str) and isinstance(getattr(errno, value, None), int)


def _address(one: Sequence[Any]) -> Address:
    interface, family, address, prefix, scope, temporary = one
    return Address(printable(interface), printable(family), printable(address), prefix, printable(scope), temporary)


def _is_address(value: object) -> bool:
    return isinstance(value, list) and [type(part) for part in value] == [str, str, str, int, str, bool]


def _table(inner: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(inner, value.values()))


_PARTS: Mapping[str, Callable[[Any], bool]] = {
    "files": _table(_is_text),
    "links": _table(_is_text),
    "errors": _table(_is_error),
    "folders": _are_texts,
    "properties": _table(_table(_is_text)),
    "hardware_names": _table(_table(_is_text)),
    "link_speeds": _table(_are_numbers),
    "link_kinds": _table(_is_text),
    "default_interfaces": _are_texts,
    "addresses": lambda value: isinstance(value, list) and all(map(_is_address, value)),
    "filesystem_sizes": _table(lambda value: type(value) is int),
    "ages": _table(lambda value: type(value) in (int, float)),
    "programs": _table(lambda value: isinstance(value, list) and [type(v) for v in value] == [int, str, str]),
    "arch": _is_text,
    "hostname": _is_text,
    "unknown": _table(lambda value: isinstance(value, list) and len(value) == 2 and _is_text(value[1])),
    "redacted": lambda value: isinstance(value, bool),
}


class RecordedHost:
    """Another machine, or one that never was."""

    def __init__(self, recording: Mapping[str, Any]) -> None:
        self._files: Mapping[str, str] = recording.get("files", {})
        self._links: Mapping[str, str] = recording.get("links", {})
        self._errors: Mapping[str, str] = recording.get("errors", {})
        self._properties: Mapping[str, Mapping[str, str]] = recording.get("properties", {})
        self._unknown: Mapping[str, Sequence[str | None]] = recording.get("unknown", {})
        self._recording = recording
        self._folders: dict[str, set[str]] = {path: set() for path in recording.get("folders", ())}
        for path in [*self._folders, *self._files, *self._links, *self._errors, *self._properties]:
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
        real = self._known(device)
        self._require(f"properties {real}", real, device)
        return {printable(k): printable(v) for k, v in self._properties.get(real, {}).items()}

    def hardware_names(self, modalias: str) -> Mapping[str, str]:
        found = self._recording.get("hardware_names", {}).get(modalias, {})
        return {printable(k): printable(v) for k, v in found.items()}

    def link_speeds(self, interface: str) -> Sequence[int]:
        self._require(f"link_speeds {interface}")
        found: Sequence[int] | None = self._recording.get("link_speeds", {}).get(interface)
        if found is None:
            raise HostError(f"the recording does not tell the link modes of {interface}", errno.ENODEV)
        return found

    def link_kind(self, interface: str) -> str:
        self._require(f"link_kinds {interface}")
        found: str | None = self._recording.get("link_kinds", {}).get(interface)
        if found is None:
            raise HostError(f"the recording does not tell the kind of {interface}", errno.ENODEV)
        return found

    def default_interfaces(self) -> Sequence[str]:
        self._require("default_interfaces")
        found: Sequence[str] | None = self._recording.get("default_interfaces")
        if found is None:
            raise HostError("the recording does not tell the default routes")
        return found

    def addresses(self) -> Sequence[Address]:
        self._require("addresses")
        found: Sequence[Sequence[Any]] | None = self._recording.get("addresses")
        if found is None:
            raise HostError("the recording does not tell the addresses of interfaces")
        return [_address(one) for one in found]

    def filesystem_size(self, point: str, mounts: Collection[str]) -> int:
        for question in (f"filesystem_sizes {point}", f"filesystem_sizes {point} {min(mounts, default='')}"):
            self._require(question)
        found: int | None = self._recording.get("filesystem_sizes", {}).get(point)
        if found is None:
            raise HostError(f"the recording does not tell the size of {point}")
        return found

    def lines(self, path: str) -> Sequence[str]:
        found = self._files.get(self._real(path) or "", "")
        return [printable(line) for line in found.replace("\0", "\n").replace("\t", " ").split("\n") if line]

    def content(self, path: str, most: int) -> Content:
        found = self._files.get(self._known(path))
        if found is None:
            raise HostError(f"the recording does not tell what {path} holds", errno.ENOENT)
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

    def _require(self, question: str, real: str = "", asked: str = "") -> None:
        """Raises HostError if the machine did not answer this when it was recorded; asked: another name for real."""
        if question in self._unknown:
            code, message = self._unknown[question]
            said = str(message).replace(real, asked) if real else str(message)
            raise HostError(said, getattr(errno, code, None) if code else None)

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
        parts, real, hops = path.split("/")[::-1], "", 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            real = real.rpartition("/")[0] if part == ".." else f"{real}/{part}"
            if real in self._errors:
                code: int = getattr(errno, self._errors[real])
                raise HostError(f"{path} could not be read: {os.strerror(code)}", code)
            target = self._links.get(real)
            if target is not None:
                hops += 1
                if hops > 40:
                    raise HostError(f"{path} could not be read: {os.strerror(errno.ELOOP)}", errno.ELOOP)
                parts += target.split("/")[::-1]
                real = "" if target.startswith("/") else real.rpartition("/")[0]
        return real

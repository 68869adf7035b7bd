"""A recorded machine as a Host, in memory. format.py lists the parts of a recording."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from capacityd.host.recording.contents import TREES
from capacityd.host.recording.format import address_of, read_recording
from capacityd.model.errors import HostError, NotRecorded
from capacityd.model.host import Address, Content, Memory, Output
from capacityd.model.text import printable

_MAX_ATTRIBUTE_BYTES = 65536
_MAX_TABLE_BYTES = 16 * 1024 * 1024
_MAX_LINKS = 40  # limit for one path, as in the kernel
_IN_TREES = tuple(f"{tree}/" for tree in TREES)
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO)


def load(path: str) -> RecordedHost:
    """The machine recorded in a file. Raises UsageError if the file is not a recording."""
    return RecordedHost(read_recording(path))


class RecordedHost:
    """Another machine, or one that never existed; scandir and readlink are for recording it again."""

    def __init__(self, recording: Mapping[str, Any]) -> None:
        self._files: Mapping[str, str] = recording.get("files", {})
        self._links: Mapping[str, str] = recording.get("links", {})
        self._errors: Mapping[str, str] = recording.get("errors", {})
        self._properties: Mapping[str, Mapping[str, str]] = recording.get("properties", {})
        self._unknown: Mapping[str, Sequence[str | None]] = recording.get("unknown", {})
        self._recording = recording
        left_out = [f"{folder}/{name}" for folder, names in recording.get("left_out", {}).items() for name in names]
        self._left_files = {path for path in left_out if not path.endswith("/")}
        self._left_folders = {path[:-1] for path in left_out if path.endswith("/")}
        self._folders: dict[str, set[str]] = {path: set() for path in recording.get("folders", ())}
        recorded = [*self._folders, *self._files, *self._links, *self._errors, *self._properties]
        for path in [*recorded, *self._left_files, *self._left_folders]:
            folder, _, name = path.rpartition("/")
            while name and name not in self._folders.setdefault(folder, set()):
                self._folders[folder].add(name)
                folder, _, name = folder.rpartition("/")

    def listdir(self, folder: str) -> Sequence[str]:
        real = self._real(folder)
        if real not in self._folders and folder.startswith("/sys/") and "/sys/devices" not in self._folders:
            raise HostError(f"{folder} does not exist", errno.ENOENT)  # the recorded machine had no sysfs
        if real in self._left_folders:
            raise _not_recorded(folder)
        return sorted(self._folders.get(real or "", ()))

    def text(self, path: str) -> str | None:
        content = self._optional_content(path, _MAX_ATTRIBUTE_BYTES)
        return None if content is None else printable(content.strip(" \t\n\0"))

    def resolve(self, path: str) -> str | None:
        real = self._real(path, content=False)
        return real if real is not None and self._is_listed(real) else None

    def exists(self, path: str) -> bool:
        real = self._real(path, content=False)
        if real is not None and not self._is_listed(real) and not f"{real}/".startswith(_IN_TREES):
            raise _not_recorded(path)
        return real is not None and self._is_listed(real)

    def properties(self, device: str) -> Mapping[str, str]:
        real = self._known(device)
        self._require(f"properties {real}", real, device)
        return {printable(k): printable(v) for k, v in self._properties.get(real, {}).items()}

    def property(self, device: str, *names: str) -> str | None:
        known = self.properties(device)
        return next((known[name] for name in names if known.get(name)), None)

    def hardware_names(self, modalias: str) -> Mapping[str, str]:
        known = self._recording.get("hardware_names", {}).get(modalias, {})
        return {printable(k): printable(v) for k, v in known.items()}

    def link_modes(self, interface: str) -> Sequence[str]:
        return list(self._answer("link_modes", interface, f"the link modes of {printable(interface)}"))

    def link_kind(self, interface: str) -> str:
        return str(self._answer("link_kinds", interface, f"the kind of {printable(interface)}"))

    def linked_interface(self, interface: str) -> str:
        return str(self._answer("linked_interfaces", interface, f"the interface that {printable(interface)} uses"))

    def default_interfaces(self) -> Sequence[str]:
        return list(self._part("default_interfaces"))

    def addresses(self) -> Sequence[Address]:
        return [address_of(fields) for fields in self._part("addresses")]

    def processors(self, measure: str) -> int | None:
        self._require("processors")  # recordings of earlier versions have one answer for all measures
        number: int | None = self._answer("processors", measure, f"the processors' {measure}")
        return number

    def memory(self) -> Memory:
        return Memory(**self._part("memory"))

    def filesystem_size(self, point: str, ids: Collection[str]) -> int:
        self._require(f"filesystem_sizes {point} {min(ids, default='')}")
        return int(self._answer("filesystem_sizes", point, f"the size of {point}"))

    def lines(self, path: str) -> Sequence[str]:
        content = self._optional_content(path, _MAX_TABLE_BYTES) or ""
        return [printable(line) for line in content.replace("\0", "\n").replace("\t", " ").split("\n") if line]

    def read_file(self, path: str, most: int) -> Content:
        content = self.raw(path, most)
        return Content(printable(content.strip()), float(self._recording.get("ages", {}).get(path, 0)))

    def run(self, command: Sequence[str], timeout: float) -> Output:
        status, out, err = self._answer("programs", json.dumps(list(command)), f"the output of {command[0]}")
        return Output(int(status), printable(out.strip()), printable(err.strip()))

    def sandbox_advice(self, paths: Sequence[str], *, runs: bool = False) -> str:
        return ""  # a recording is not read in the service

    def arch(self) -> str:
        return str(self._recording.get("arch", "x86_64"))

    def hostname(self) -> str:
        return str(self._recording.get("hostname", "recorded"))

    def scandir(self, folder: str) -> Sequence[tuple[str, str]]:
        real = self._known(folder)
        if real not in self._folders and real not in self._left_folders:
            raise HostError(f"{folder} does not exist", errno.ENOENT)
        return [(name, self._kind(f"{real}/{name}")) for name in self.listdir(folder)]

    def raw(self, path: str, limit: int) -> str:
        content = self._content(path, limit)
        if content is None:
            raise HostError(f"the recording does not contain the file {path}", errno.ENOENT)
        return content

    def readlink(self, path: str) -> str:
        return self._links[path]

    def _kind(self, path: str) -> str:
        if path in self._links:
            return "link"
        if path in self._left_files:
            return ""
        return "folder" if path in self._folders or path in self._left_folders else "file"

    def _part(self, part: str) -> Any:
        self._require(part)
        if part not in self._recording:
            raise HostError(f'the recording lacks the part "{part}": record the machine again')
        return self._recording[part]

    def _answer(self, part: str, key: str, subject: str) -> Any:
        self._require(f"{part} {key}")
        answers = self._recording.get(part, {})
        if key not in answers:
            raise HostError(f"the recording does not contain {subject}", errno.ENODEV)
        return answers[key]

    def _require(self, question: str, real: str = "", path: str = "") -> None:
        """Raises HostError if the machine did not answer this question during recording. path: another name of real."""
        if question in self._unknown:
            code, message = self._unknown[question]
            text = str(message).replace(real, path) if real else str(message)
            raise HostError(text, getattr(errno, code, None) if code else None)

    def _content(self, path: str, limit: int) -> str | None:
        """A file's content; None if the file does not exist.

        Raises HostError if it is not recorded, and with EFBIG if it is longer than limit bytes.
        """
        real = self._known(path)
        if real in self._left_files:
            raise _not_recorded(path)
        content = self._files.get(real)
        if content is not None and len(content.encode("utf-8", "replace")) > limit:  # a lone surrogate is one byte
            raise HostError(f"{path} is longer than {limit} bytes", errno.EFBIG)
        return content

    def _optional_content(self, path: str, limit: int) -> str | None:
        try:
            return self._content(path, limit)
        except HostError as e:
            if e.errno in _NOT_THERE:
                return None
            raise

    def _is_listed(self, real: str) -> bool:
        """Whether the recording shows that the path exists, even if it leaves out the content."""
        contents = (self._folders, self._files, self._links, self._properties)
        return any(real in part for part in (*contents, self._left_files, self._left_folders))

    def _real(self, path: str, *, content: bool = True) -> str | None:
        """As _known, but None if the kernel reported that the path does not exist."""
        try:
            return self._known(path, content=content)
        except HostError as e:
            if e.errno in _NOT_THERE:
                return None
            raise

    def _known(self, path: str, *, content: bool = True) -> str:
        """The path with all links resolved. content: whether a folder at the path must be readable.

        Raises HostError if the recording contains an error for the path, or if the path is below a folder that it
        leaves out.
        """
        parts, real, links = path.split("/")[::-1], "", 0
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            real = real.rpartition("/")[0] if part == ".." else f"{real}/{part}"
            if real in self._errors and (content or parts or real not in self._folders):
                code: int = getattr(errno, self._errors[real])
                raise HostError(f"{path} could not be read: {os.strerror(code)}", code)
            target = self._links.get(real)
            if target is not None:
                links += 1
                if links > _MAX_LINKS:
                    raise HostError(f"{path} could not be read: {os.strerror(errno.ELOOP)}", errno.ELOOP)
                parts += target.split("/")[::-1]
                real = "" if target.startswith("/") else real.rpartition("/")[0]
        if not self._is_listed(real) and self._may_exist(real):
            raise _not_recorded(path)
        return real

    def _may_exist(self, real: str) -> bool:
        """Whether the machine may have a path in /sys that the recording neither contains nor lists."""
        if not real.startswith("/sys/") or any(tree.startswith(f"{real}/") for tree in _IN_TREES):
            return False
        if not f"{real}/".startswith(_IN_TREES):
            return True  # below a link's target, such as a kernel module
        folders = (real[:end] for end, character in enumerate(real) if character == "/")
        return any(folder in self._left_folders for folder in folders)


def _not_recorded(path: str) -> NotRecorded:
    return NotRecorded(f"{path} is not part of the recording", errno.ENODATA)

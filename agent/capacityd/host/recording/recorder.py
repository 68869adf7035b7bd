"""Records a machine: devices with the attributes that contents.py lists, mounts, and answers to queries.

The recording names files that exist but are not recorded, so that on replay they are unknown, never absent.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple
from functools import partial
from typing import Any, TypeAlias, TypeVar

from capacityd.host.cpu_memory import PROCESSOR_MEASURES
from capacityd.host.filesystems import local_filesystems
from capacityd.host.live import LiveHost
from capacityd.host.lower_disks import BCACHEFS, JOURNALS
from capacityd.host.mounts import SWAPS
from capacityd.host.recording.contents import keeps_file, keeps_folder, mounts_without_options, unit_without_options
from capacityd.host.recording.format import Recording
from capacityd.host.recording.named import targets, units
from capacityd.host.recording.replay import RecordedHost
from capacityd.host.system_disks import RESUME
from capacityd.linux.mountinfo import MOUNT_TABLE
from capacityd.model.errors import HostError
from capacityd.model.text import printable

Answer = TypeVar("Answer")
Source: TypeAlias = LiveHost | RecordedHost

_MAX_ATTRIBUTE_BYTES = 8192  # the kernel writes at most a page
_MAX_TABLE_BYTES = 16 * 1024 * 1024
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ESTALE)
_NO_VALUE = ("ENODATA", "EINVAL", "EOPNOTSUPP", "ENODEV")  # from a driver that does not support the value
_DEVICES = "/sys/devices"


class RecorderStoppedError(Exception):
    """Another thread has set Recorder.stopped."""


class Recorder:
    """Makes one recording. skip: paths and questions without a response in time in earlier attempts."""

    def __init__(self, source: Source, skip: Collection[str] = ()) -> None:
        self.at = ""
        """The path or question that is being read."""
        self.stopped = False
        """If another thread sets it, run() raises RecorderStoppedError."""
        self.unreadable: dict[str, list[str]] = {}
        """Name of the error -> unreadable paths."""
        self.files: dict[str, str] = {}
        self._source = source
        self._skip = skip
        self._links: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        self._left_out: dict[str, list[str]] = {}
        self._folders: set[str] = set()  # folders without recorded contents
        self._walked: set[str] = set()
        self._listed: set[str] = set()  # devices that a bus or class lists
        self._unknown: dict[str, list[str | None]] = {}

    def run(self) -> Recording:
        """The whole recording, with all identifiers. Errors become a part of it; run() raises no HostError."""
        self._folder(_DEVICES)
        for bus, _ in self._folder("/sys/bus"):
            self._folder(f"/sys/bus/{bus}")
            self._devices(f"/sys/bus/{bus}/devices")
        for subsystem, _ in self._folder("/sys/class"):
            self._devices(f"/sys/class/{subsystem}")
        for folder in ("/sys/block", "/sys/dev/block"):
            self._devices(folder)
        for pool, _ in self._folder("/sys/fs/btrfs"):
            self._devices(f"/sys/fs/btrfs/{pool}/devices")
        for pool, _ in self._folder(BCACHEFS):
            for device, _ in self._folder(f"{BCACHEFS}/{pool}"):
                self._link(f"{BCACHEFS}/{pool}/{device}/block")
        if self._resolved("/proc/device-tree"):
            self._link("/proc/device-tree")
            self._folder("/sys/firmware/devicetree/base")
        self._file(MOUNT_TABLE, _MAX_TABLE_BYTES, mounts_without_options)
        self._file(SWAPS, _MAX_TABLE_BYTES)
        if self._resolved(RESUME):
            self._file(RESUME, _MAX_ATTRIBUTE_BYTES)
        self._folder(JOURNALS)
        for path in [*units(self.files)]:
            self._file(path, _MAX_ATTRIBUTE_BYTES, unit_without_options)
        self._named()
        self._link_targets()
        return {
            "files": self.files,
            "links": self._links,
            "errors": self._errors,
            "left_out": {folder: names for folder in self._left_out if (names := self._unrecorded(folder))},
            "folders": sorted(self._folders),
            **self._answers(),
            "unknown": self._unknown,
            "arch": self._source.arch(),
            "hostname": self._source.hostname(),
        }

    def _unrecorded(self, folder: str) -> list[str]:
        """The names in a folder that the recording leaves out."""
        return [name for name in self._left_out[folder] if f"{folder}/{name.removesuffix('/')}" not in self._walked]

    def _answers(self) -> Recording:
        """The parts that the kernel and udev answer."""
        source = self._source
        of_interfaces: dict[str, Callable[[str], Any]]
        of_interfaces = {"link_modes": source.link_modes, "link_kinds": source.link_kind}
        of_interfaces["linked_interfaces"] = source.linked_interface
        answers: Recording = {p: {} for p in ("properties", *of_interfaces, "processors", "filesystem_sizes")}
        for path in sorted(self._walked):
            # Some devices have no link to their subsystem, so udev may not know them.
            unreadable = f"{path}/subsystem" in self._errors or f"{path}/uevent" in self._errors
            if f"{path}/subsystem" in self._links or path in self._listed or unreadable:
                answers["properties"] |= self._answer(f"properties {path}", path, partial(source.properties, path))
        for name in sorted(path.rpartition("/")[2] for path in self._links if path.startswith("/sys/class/net/")):
            for part, ask in of_interfaces.items():
                answers[part] |= self._answer(f"{part} {name}", name, partial(ask, name))
        for measure in PROCESSOR_MEASURES:
            answers["processors"] |= self._answer(f"processors {measure}", measure, partial(source.processors, measure))
        for point, ids in self._mount_points():
            # A file system hidden by another mount has the same mount point, and can't be measured.
            question = f"filesystem_sizes {point} {min(ids)}"
            answers["filesystem_sizes"] |= self._answer(question, point, partial(source.filesystem_size, point, ids))
        return {
            **answers,
            **self._answer("addresses", "addresses", lambda: [list(astuple(a)) for a in source.addresses()]),
            **self._answer("memory", "memory", lambda: asdict(source.memory())),
            **self._answer("default_interfaces", "default_interfaces", source.default_interfaces),
        }

    def _mount_points(self) -> Iterator[tuple[str, frozenset[str]]]:
        with suppress(HostError):
            for filesystem in local_filesystems(self._source):
                yield from ((point, filesystem.ids) for point in filesystem.points)

    def _devices(self, folder: str) -> None:
        """Records the devices of a bus or class, and the devices above them."""
        for name, kind in self._folder(folder):
            path = f"{folder}/{name}"
            if kind == "folder":
                self._folder(path)
            path = os.path.normpath(os.path.join(folder, self._links.get(path, "")))
            if path.startswith(f"{_DEVICES}/"):
                self._listed.add(path)
            while path.startswith(f"{_DEVICES}/") and path not in self._walked:
                self._folder(path)
                path = path.rpartition("/")[0]

    def _folder(self, folder: str) -> Sequence[tuple[str, str]]:
        """Records a folder's entries, and those of its listed subfolders. Returns the entries."""
        if folder in self._walked:
            return ()
        try:
            entries = self._do(folder, lambda: self._source.scandir(folder))
        except HostError as e:
            self._failed(folder, e)
            if folder in self._errors:
                self._folders.add(folder)  # the folder exists, regardless of its contents
            return ()
        self._walked.add(folder)
        left_out = []
        for name, kind in entries:
            path = f"{folder}/{name}"
            if kind == "link":
                self._link(path)
            elif kind == "file" and folder.startswith((_DEVICES, "/sys/class", "/sys/firmware")) and keeps_file(path):
                self._file(path, _MAX_ATTRIBUTE_BYTES)
            elif kind == "folder" and keeps_folder(path):
                self._folder(path)
            else:
                left_out.append(f"{name}/" if kind == "folder" else name)
        if left_out:
            self._left_out[folder] = left_out
        elif not entries:
            self._folders.add(folder)
        return entries

    def _file(self, path: str, limit: int, change: Callable[[str], str] = str) -> None:
        self._keep(self.files, path, lambda: change(self._source.raw(path, limit)))

    def _link(self, path: str) -> None:
        self._keep(self._links, path, lambda: self._source.readlink(path))

    def _keep(self, part: dict[str, str], path: str, ask: Callable[[], str]) -> None:
        try:
            part[path] = self._do(path, ask)
        except HostError as e:
            self._failed(path, e)

    def _failed(self, path: str, e: HostError) -> None:
        if e.errno not in _NOT_THERE:
            self._errors[path] = error = "ENODATA" if e.errno == errno.EFBIG else _code(e) or "EIO"
            if error not in _NO_VALUE:
                self.unreadable.setdefault(error, []).append(printable(path))

    def _named(self) -> None:
        """Records the existence of what mounts, swap areas and loop devices name."""
        for path in sorted(targets(self.files)):
            if real := self._resolved(path):
                if real != path:
                    self._links[path] = real
                self._folders.add(real)

    def _link_targets(self) -> None:
        """Records the existence of link targets that are not recorded otherwise, such as drivers."""
        recorded = self._walked | self._folders
        for path, target in sorted(self._links.items()):
            full = os.path.normpath(os.path.join(path.rpartition("/")[0], target))
            if full not in recorded and full not in self._links and full not in self.files:
                real = self._resolved(path)
                if real is not None and real.startswith(f"{_DEVICES}/"):
                    self._folder(real)
                if real is not None and real not in self._walked and real not in self.files:
                    self._folders.add(real)
                recorded.add(full)

    def _resolved(self, path: str) -> str | None:
        with suppress(HostError):
            return self._do(path, lambda: self._source.resolve(path))
        return None

    def _answer(self, question: str, key: str, ask: Callable[[], Any]) -> dict[str, Any]:
        """The answer by its key. Without an answer, returns an empty dict and records the reason.

        question: the answer's name in the recording.
        """
        try:
            return {key: self._do(question, ask)}
        except HostError as e:
            self._unknown[question] = [_code(e), str(e)]
            return {}

    def _do(self, question: str, ask: Callable[[], Answer]) -> Answer:
        if self.stopped:
            raise RecorderStoppedError
        if question in self._skip:
            raise HostError(f"{question} did not respond in time", errno.ETIMEDOUT)
        self.at = question
        return ask()


def _code(e: HostError) -> str | None:
    return "EOPNOTSUPP" if e.errno == errno.EOPNOTSUPP else errno.errorcode.get(e.errno or 0)

"""Makes a recording of a machine: all of /sys that leads to devices, udev's properties, mounts, the kernel's answers.

What it leaves out it marks as ENODATA, so that on replay that is unknown, never absent.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from typing import Any, TypeVar

from capacityd.errors import HostError
from capacityd.host.mountinfo import unescaped
from capacityd.host.mounts import LOCAL, filesystems
from capacityd.host.source import Source, may_be_read, may_be_walked
from capacityd.host.system import OURS, generated
from capacityd.printable import printable

Recording = dict[str, Any]
Answer = TypeVar("Answer")

_MOST = 8192  # bytes; an attribute has at most a page
_MOST_LINES = 16 * 1024 * 1024
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ESTALE)
_IN_MEMORY = ("devtmpfs", "overlay", "ramfs", "rootfs", "tmpfs")
_LEFT_OUT = "ENODATA"
_NOTHING = (_LEFT_OUT, "EINVAL", "EOPNOTSUPP", "ENODEV")  # drivers' ways to say that there is none


class Walk:
    """One recording as it grows. at: what is being read right now; stopped: set it, and run raises Stopped.

    unread: error -> the paths that could not be read for it, though somebody may read them.

    A walk that is stuck at some path can be left behind: one that is given its parts, and the path to leave out, goes
    on from there.
    """

    def __init__(self, source: Source, before: Walk | None = None, without: Iterable[str] = ()) -> None:
        self.source = source
        self.at = ""
        self.stopped = False
        self.without: frozenset[str] = frozenset(without) | (before.without if before else frozenset())
        self.files: dict[str, str] = dict(before.files) if before else {}
        self.links: dict[str, str] = dict(before.links) if before else {}
        self.errors: dict[str, str] = dict(before.errors) if before else {}
        self.folders: set[str] = set(before.folders) if before else set()
        self.properties: dict[str, Mapping[str, str]] = dict(before.properties) if before else {}
        self.unread: dict[str, list[str]] = dict(before.unread) if before else {}
        self.unknown: dict[str, list[str | None]] = dict(before.unknown) if before else {}

    def run(self) -> Recording:
        """The whole recording, of text as it was found. Never raises HostError: what can't be read is part of it."""
        for root in ("/sys/devices", "/sys/bus", "/sys/class", "/sys/block", "/sys/dev"):
            self._folder(root)
        for pool, _ in self._entries("/sys/fs/btrfs"):
            self._folder(f"/sys/fs/btrfs/{pool}/devices")
        if self._exists("/proc/device-tree"):
            self._link("/proc/device-tree")
            self._folder("/sys/firmware/devicetree/base", deep=False)
        self._file("/proc/self/mountinfo", _MOST_LINES, _short_mounts)
        self._file("/proc/swaps", _MOST_LINES)
        for point in OURS:
            self._file(generated(point), _MOST)
        self._nodes()
        for path in sorted(p for p in self.files if p.endswith("/uevent")):
            device = path.removesuffix("/uevent")
            if f"{device}/subsystem" in self.links:
                self._ask(f"properties {device}", self.properties, device, partial(self.source.properties, device))
        self._targets()
        speeds: dict[str, Sequence[int]] = {}
        kinds: dict[str, str] = {}
        for name, sort in self._entries("/sys/class/net"):
            if sort == "link":
                self._ask(f"link_speeds {name}", speeds, name, partial(self.source.link_speeds, name))
                self._ask(f"link_kinds {name}", kinds, name, partial(self.source.link_kind, name))
        answers: dict[str, Any] = {"filesystem_sizes": {}}
        self._ask("addresses", answers, "addresses", lambda: [list(astuple(a)) for a in self.source.addresses()])
        for point, ids in self._local():
            # One that another is mounted over has its mount point, too, but can't be asked.
            size: dict[str, int] = {}
            question = f"filesystem_sizes {point} {min(ids)}"
            self._ask(question, size, point, partial(self.source.filesystem_size, point, ids))
            answers["filesystem_sizes"] |= size
        self._ask("default_interfaces", answers, "default_interfaces", self.source.default_interfaces)
        return {
            "files": self.files,
            "links": self.links,
            "errors": self.errors,
            "folders": sorted(self.folders),
            "properties": self.properties,
            "unknown": self.unknown,
            "link_speeds": speeds,
            "link_kinds": kinds,
            **answers,
            "arch": self.source.arch(),
            "hostname": self.source.hostname(),
        }

    def _local(self) -> Iterator[tuple[str, frozenset[str]]]:
        """Where file systems are mounted that are on a disk or in memory; those of other machines may not answer."""
        with suppress(HostError):
            for found in filesystems(self.source):
                if not found.number.startswith("0:") or found.type in (*LOCAL, *_IN_MEMORY):
                    yield from ((point, found.ids) for point in found.points)

    def _folder(self, folder: str, deep: bool = True) -> None:
        """Records what is below a folder."""
        found = self._entries(folder)
        if not found and folder not in self.errors and self._exists(folder):
            self.folders.add(folder)
        for name, sort in found:
            path = f"{folder}/{name}"
            if sort == "link":
                self._link(path)
            elif folder.startswith("/sys/bus/") and name == "drivers":
                continue  # hundreds, most without a device; the links of the devices name the others
            elif sort == "folder" and deep and may_be_walked(path):
                self._folder(path)
            elif sort == "file" and may_be_read(path):
                self._file(path, _MOST)
            elif sort:
                self.errors[path] = _LEFT_OUT
            else:
                self._failed(path, self._why(path))

    def _entries(self, folder: str) -> Sequence[tuple[str, str]]:
        try:
            return self._do(folder, lambda: self.source.entries(folder))
        except HostError as e:
            self._failed(folder, e, told=True)
            return ()

    def _why(self, path: str) -> HostError:
        try:
            self._do(path, lambda: self.source.raw(path, _MOST))
        except HostError as e:
            return e
        return HostError("nobody may read it", errno.EACCES)

    def _file(self, path: str, most: int, change: Callable[[str], str] = str) -> None:
        if path in self.files or path in self.errors:
            return
        try:
            self.files[path] = change(self._do(path, lambda: self.source.raw(path, most)))
        except HostError as e:
            self._failed(path, e, told=True)

    def _link(self, path: str) -> None:
        try:
            self.links[path] = self._do(path, lambda: self.source.target(path))
        except HostError as e:
            self._failed(path, e)

    def _failed(self, path: str, e: HostError, told: bool = False) -> None:
        if e.errno not in _GONE:  # the machine has no such thing, or no more
            self.errors[path] = _LEFT_OUT if e.errno == errno.EFBIG else _code(e) or "EIO"
            if told and self.errors[path] not in _NOTHING:
                self.unread.setdefault(self.errors[path], []).append(printable(path))

    def _exists(self, path: str) -> bool:
        try:
            return self._do(path, lambda: self.source.resolve(path)) is not None
        except HostError:
            return False

    def _nodes(self) -> None:
        """The links in /dev that mounts and swap are named by."""
        swaps = [line.split()[0] for line in self.files.get("/proc/swaps", "").split("\n")[1:] if line.strip()]
        table = self.files.get("/proc/self/mountinfo", "").split("\n")
        mounts = [fields[1] for line in table if len(fields := line.partition(" - ")[2].split(" ")) > 1]
        for path in sorted({unescaped(source) for source in (*swaps, *mounts)}):
            if path.startswith("/dev/") and (real := self._resolved(path)):
                if real != path:
                    self.links[path] = real
                if real.startswith("/dev/"):
                    self.folders.add(real)

    def _targets(self) -> None:
        """What links lead to outside of what is recorded, such as drivers, is recorded as being there."""
        known = set(self.files) | self.folders | set(self.links)
        for path in [*known]:
            while (path := path.rpartition("/")[0]) and path not in known:
                known.add(path)
        for path, target in sorted(self.links.items()):
            full = os.path.normpath(target if target.startswith("/") else f"{path.rpartition('/')[0]}/{target}")
            real = None if full in known or self._is_left_out(full) else self._resolved(path)
            if real is not None and real not in known and not self._is_left_out(real):
                self.folders.add(real)
                known.add(real)

    def _is_left_out(self, path: str) -> bool:
        """Whether it, or a folder that it is in, is among the errors: then it needs no mention of its own."""
        while path and path not in self.errors:
            path = path.rpartition("/")[0]
        return bool(path)

    def _resolved(self, path: str) -> str | None:
        try:
            return self._do(path, lambda: self.source.resolve(path))
        except HostError:
            return None

    def _ask(self, question: str, answers: dict[str, Any], key: str, ask: Callable[[], Any]) -> None:
        """Notes an answer, or why there is none. question: as the recording names it."""
        if key in answers or question in self.unknown:
            return
        try:
            answers[key] = self._do(question, ask)
        except HostError as e:
            self.unknown[question] = [_code(e), str(e)]

    def _do(self, path: str, ask: Callable[[], Answer]) -> Answer:
        if self.stopped:
            raise Stopped
        if path in self.without:
            raise HostError(f"{path} did not answer in time", errno.ETIMEDOUT)
        self.at = path
        return ask()


class Stopped(Exception):
    """Somebody stopped the walk."""


def _short_mounts(text: str) -> str:
    """The table of mounts without the file systems' own options, and who opens them for that of another machine: long,
    private, and no detector's concern."""
    return "".join(f"{_short_mount(line)}\n" for line in text.split("\n") if line)


def _short_mount(line: str) -> str:
    before, hyphen, after = line.partition(" - ")
    kind, source, options = [*after.split(" "), "", "", ""][:3]
    source = re.sub("//[^/@]*@", "//", source)
    return f"{before}{hyphen}{kind} {source} {options.partition(',')[0]}" if hyphen else line


def _code(e: HostError) -> str | None:
    return "EOPNOTSUPP" if e.errno == errno.EOPNOTSUPP else errno.errorcode.get(e.errno or 0)

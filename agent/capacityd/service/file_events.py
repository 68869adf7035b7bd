"""Changes of files, by inotify(7): of files that exist, files that do not exist yet, and targets of links.

A watch on a folder reports each file in it by name, and its content when it was written and closed. Nothing below a
network or FUSE mount is watched or accessed: it would hang the service while the server or program is gone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections import defaultdict
from collections.abc import Collection, Iterable

from capacityd.linux.filesystems import may_hang
from capacityd.linux.mountinfo import TABLE, mount_of
from capacityd.model.messages import PassReason

_BUFFER = 65536
_IN_CREATE, _IN_MOVED, _IN_DELETE, _IN_CLOSE_WRITE, _IN_ATTRIB = 0x100, 0x80 | 0x40, 0x200, 0x8, 0x4
_IN_DELETE_SELF, _IN_MOVE_SELF, _IN_ONLYDIR, _IN_Q_OVERFLOW = 0x400, 0x800, 0x1000000, 0x4000
_MASK = (
    _IN_CREATE | _IN_MOVED | _IN_DELETE | _IN_CLOSE_WRITE | _IN_ATTRIB | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR
)
_OF_A_FILE = 0x2 | 0x2000000 | 0x20000000  # IN_MODIFY, IN_DONT_FOLLOW, IN_MASK_ADD
_MAXSYMLINKS = 40  # links that the kernel follows in one path
_ATTEMPTS = 3  # to watch a folder that is created meanwhile


class FileEvents:
    """Changes of files. Each is watched in its folder or, until that exists, in the nearest one above.

    paths: path -> the reason for a pass that its change is. Targets of links are also watched.
    """

    def __init__(self, paths: dict[str, PassReason]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no more files can be watched (fs.inotify.max_user_instances)")
        self._paths = paths
        self._places: dict[str, str] = {}  # path that matters -> the folder that is watched for it
        self._watches: dict[int, set[str]] = {}  # watch descriptor -> its paths; several may lead to one folder or file
        try:
            self._watch()
        except OSError:
            os.close(self._fd)
            raise

    def fileno(self) -> int:
        return int(self._fd)

    def _watch(self) -> None:
        """Updates the watches: what each path needs now, and nothing else, because some folders are busy."""
        places: dict[str, str] = {}
        watches: defaultdict[int, set[str]] = defaultdict(set)
        self._remote = _remote()
        for path in self._paths:
            ways = _ways(path, self._remote)
            for place in ways:
                number, folder = self._nearest(place)
                places[place] = folder
                watches[number].add(folder)
            # truncate(2) is reported by the file only: it is not opened for writing, so there is no close.
            file = ways[-1]
            if file not in self._remote and (number := self._add(file, _OF_A_FILE)) >= 0:
                watches[number].add(file)
        for number in self._watches.keys() - watches.keys():
            self._libc.inotify_rm_watch(self._fd, number)
        self._places, self._watches = places, watches

    def _nearest(self, place: str) -> tuple[int, str]:
        """Watches the nearest folder that exists; its watch descriptor and path."""
        for _ in range(_ATTEMPTS):
            below, folder = "", os.path.dirname(place)
            while (number := self._add(folder, _MASK)) < 0:
                if folder == "/":
                    raise OSError(errno.ENOENT, "nothing can be watched")
                below, folder = folder, os.path.dirname(folder)
            if not below or not os.path.isdir(below):
                break  # else it was created just before its parent was watched
        return number, folder

    def _add(self, path: str, mask: int) -> int:
        """Its watch descriptor; below 0 if it does not exist."""
        number = int(self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask))
        if number < 0 and (code := ctypes.get_errno()) in (errno.ENOSPC, errno.ENOMEM):
            raise OSError(code, "no more files can be watched (fs.inotify.max_user_watches)")
        return number

    def drain(self) -> set[PassReason]:
        """Reads all queued events; returns the reasons for a pass."""
        touched: set[str] = set()
        while True:
            try:
                data = os.read(self._fd, _BUFFER)
            except BlockingIOError:
                break
            touched.update(self._touched(data))
        before = self._places
        if touched:
            self._watch()
        return {
            reason
            for path, reason in self._paths.items()
            for place in _ways(path, self._remote)
            if before.get(place) != self._places.get(place) or any(_concerns(changed, place) for changed in touched)
        }

    def _touched(self, data: bytes) -> Iterable[str]:
        while data:
            number, mask, _, length = struct.unpack_from("iIII", data)
            name, data = os.fsdecode(data[16 : 16 + length].rstrip(b"\0")), data[16 + length :]
            if mask & _IN_Q_OVERFLOW:
                yield "/"
            for watched in self._watches.get(number, ()):
                yield os.path.join(watched, name) if name else watched

    def close(self) -> None:
        os.close(self._fd)


def _remote() -> set[str]:
    """Mount points of network and FUSE file systems."""
    with open(TABLE, encoding="utf-8", errors="surrogateescape", newline="\n") as f:
        return {mount.point for mount in map(mount_of, f) if mount and may_hang(mount.type)}


def _ways(path: str, remote: Collection[str]) -> list[str]:
    """The paths whose change may change what this path leads to: each link on the way, and the final target.

    remote: mount points below which nothing is accessed.
    """
    found: dict[str, None] = {}
    followed = 0
    here, left = "", path.split("/")
    while left:
        part = left.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        here = f"{here}/{part}"
        if here in remote:
            break
        try:
            target = os.readlink(here)
        except OSError:
            continue
        found[here] = None
        followed += 1
        if followed > _MAXSYMLINKS:
            return [*found]  # ELOOP
        left = target.split("/") + left
        here = "" if target.startswith("/") else os.path.dirname(here)
    return [*found, here or "/"]


def _concerns(changed: str, watched: str) -> bool:
    """Whether a change of this path may affect the watched file: it is the file or a folder above it."""
    return changed == watched or changed == "/" or watched.startswith(f"{changed}/")

"""Notices changes of files with inotify(7), also of files that do not exist yet, and of the targets of links.

A watch on a folder reports each changed file in the folder by name. It reports new content when the writer closes the
file. Nothing below a network or FUSE mount is watched or accessed, because the service would hang if the server or the
program did not respond.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from capacityd.linux.filesystem_types import may_hang
from capacityd.linux.mountinfo import MOUNT_TABLE, mount_of
from capacityd.linux.paths import is_inside, parents
from capacityd.model.reasons import PassReason
from capacityd.service.watched_paths import watched_paths

_READ_BYTES = 65536
_EVENT = struct.Struct("iIII")  # inotify_event: watch descriptor, mask, cookie, length of the name
_IN_MODIFY = 0x2
_IN_ATTRIB = 0x4
_IN_CLOSE_WRITE = 0x8
_IN_MOVE = 0x40 | 0x80  # IN_MOVED_FROM, IN_MOVED_TO
_IN_CREATE = 0x100
_IN_DELETE = 0x200
_IN_DELETE_SELF = 0x400
_IN_MOVE_SELF = 0x800
_IN_Q_OVERFLOW = 0x4000
_IN_ONLYDIR = 0x1000000
_IN_DONT_FOLLOW = 0x2000000
_IN_MASK_ADD = 0x20000000
_FOLDER_MASK = (
    _IN_ATTRIB | _IN_CLOSE_WRITE | _IN_MOVE | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR
)
_FILE_MASK = _IN_MODIFY | _IN_DONT_FOLLOW | _IN_MASK_ADD
"""IN_MASK_ADD adds this mask to the watch of a folder. Without IN_MASK_ADD, this mask would replace _FOLDER_MASK."""
_NO_WATCH = -1  # what inotify_add_watch() returns after an error


@dataclass(frozen=True, slots=True)
class _PathState:
    """What compare() compares of a watched path. None stands for what does not exist, or must not be accessed."""

    folder_id: tuple[int, int] | None
    """Device and inode of the nearest existing folder above the path."""
    path_id: tuple[int, int] | None
    """Device and inode of the path."""
    changed_at: int | None
    """When the path last changed (ctime), in nanoseconds."""


class FileEvents:
    """Changes of files. A file is watched through the nearest existing folder above it.

    paths: path -> the reason for a reconcile pass when the file changes. The targets of links are also watched, up to
    the first link whose owner is not trusted (watched_paths.py).

    A change, such as a new folder or a link to another folder, may require other watches. These watches are set only
    when the next pass begins, so a file that changes all the time costs little.
    """

    def __init__(self, paths: Mapping[str, PassReason]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no more files can be watched (fs.inotify.max_user_instances)")
        self._paths = paths
        # Watch descriptor and name in the watched folder -> the paths that an event with this name may affect. The name
        # "" stands for the watched folder or file itself. Different paths of one inode have the same descriptor.
        self._watches: dict[tuple[int, str], set[str]] = {}
        self._watched: dict[str, list[str]] = {}  # path -> the links on the way and the target, which are all watched
        self._states: dict[str, list[_PathState]] = {}  # path -> the states of those when the watches were set
        self._has_changed = False  # whether a path has changed since its watches were set
        try:
            self._set_watches()
        except OSError:
            os.close(self._fd)
            raise

    def fileno(self) -> int:
        return int(self._fd)

    def set_paths(self, paths: Mapping[str, PassReason]) -> None:
        """Watches these paths from now on. Queued events remain. Raises OSError."""
        self._paths = paths
        self._set_watches()

    def prepare_pass(self) -> None:
        """Sets the watches anew if a path has changed. Raises OSError. Call it before a pass reads the files."""
        if self._has_changed:
            self._set_watches()

    def _set_watches(self) -> None:
        """Sets the watches that the paths need now. Removes other watches, because some folders change often."""
        watches: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
        remote = _remote_mount_points()
        self._watched = {path: watched_paths(path, remote) for path in self._paths}
        self._states = {path: _states_of(watched, remote) for path, watched in self._watched.items()}
        self._has_changed = False
        for path, watched in self._watched.items():
            for link_or_target in watched:
                descriptor, name = self._watch_nearest_folder(link_or_target)
                watches[descriptor, name].add(path)
                watches[descriptor, ""].add(path)  # the folder itself may be moved or removed
            # truncate(2) does not open the file, so the folder's watch reports no close. Only a watch on the file
            # itself reports the change (_IN_MODIFY).
            last = watched[-1]  # the target, an untrusted link, or a remote mount point
            if last in remote:
                continue
            descriptor = self._add_watch(last, _FILE_MASK)
            if descriptor != _NO_WATCH:
                watches[descriptor, ""].add(path)
        last_descriptors = {descriptor for descriptor, _name in self._watches}
        needed_descriptors = {descriptor for descriptor, _name in watches}
        for descriptor in last_descriptors - needed_descriptors:
            self._libc.inotify_rm_watch(self._fd, descriptor)
        self._watches = watches

    def _watch_nearest_folder(self, path: str) -> tuple[int, str]:
        """Watches the nearest existing folder above the path.

        Returns the watch descriptor, and the name in this folder that leads to the path.
        """
        name = os.path.basename(path)
        for folder in (*parents(path), "/"):  # "/" in case the path itself is "/", which has no parents
            descriptor = self._add_watch(folder, _FOLDER_MASK)
            if descriptor != _NO_WATCH:
                return descriptor, name
            name = os.path.basename(folder)
        raise OSError(errno.ENOENT, "nothing can be watched")

    def _add_watch(self, path: str, mask: int) -> int:
        """Adds a watch. Returns the watch descriptor; _NO_WATCH if the path does not exist or can't be watched."""
        descriptor = int(self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask))
        error = ctypes.get_errno()
        if descriptor == _NO_WATCH and error in (errno.ENOSPC, errno.ENOMEM):
            raise OSError(error, "no more files can be watched (fs.inotify.max_user_watches)")
        return descriptor

    def drain(self) -> set[PassReason]:
        """Reads all queued events, and ignores other files in the watched folders. Returns the reasons for a pass."""
        changed: set[str] = set()
        with suppress(BlockingIOError):  # no event is left
            while True:
                data = os.read(self._fd, _READ_BYTES)
                for paths in self._changed_paths(data):
                    changed.update(paths)
        if changed:
            self._has_changed = True
        # set_paths() may have removed a path after its event.
        return {self._paths[path] for path in changed if path in self._paths}

    def compare(self) -> set[PassReason]:
        """Compares each path with its state when its watches were set. Returns the reasons for a pass.

        Some changes cause no event, such as a mount over a watched folder, or a change while the watches were set.
        """
        if self._has_changed:  # a pass is due already
            return set()
        remote = _remote_mount_points()
        changed = [path for path, watched in self._watched.items() if _states_of(watched, remote) != self._states[path]]
        self._has_changed = bool(changed)
        return {self._paths[path] for path in changed}

    def _changed_paths(self, data: bytes) -> Iterator[Collection[str]]:
        """Yields the paths that each event may affect. If events were lost, yields all paths."""
        while data:
            descriptor, mask, _cookie, name_length = _EVENT.unpack_from(data)
            event_end = _EVENT.size + name_length
            # The name of a file in the watched folder; "" if the watched path itself has changed.
            name = os.fsdecode(data[_EVENT.size : event_end].rstrip(b"\0"))
            data = data[event_end:]
            if mask & _IN_Q_OVERFLOW:
                yield self._paths
            else:
                yield self._watches.get((descriptor, name), ())

    def close(self) -> None:
        os.close(self._fd)


def _states_of(paths: Collection[str], remote: Collection[str]) -> list[_PathState]:
    """Returns the current states of these paths. remote: mount points to avoid."""
    states: list[_PathState] = []
    for path in paths:
        folder_status = _status_of_nearest_folder(path, remote)
        status = _status(path, remote)
        changed_at = status.st_ctime_ns if status else None
        states.append(_PathState(_device_and_inode(folder_status), _device_and_inode(status), changed_at))
    return states


def _device_and_inode(status: os.stat_result | None) -> tuple[int, int] | None:
    """None without a status."""
    return (status.st_dev, status.st_ino) if status else None


def _status_of_nearest_folder(path: str, remote: Collection[str]) -> os.stat_result | None:
    """The status of the nearest existing folder above the path; None if all folders are below remote mount points."""
    for folder in parents(path):
        status = _status(folder, remote)
        if status is not None:
            return status
    return None


def _status(path: str, remote: Collection[str]) -> os.stat_result | None:
    """The status of a file, folder or link; None if it does not exist, or is below a remote mount point."""
    if any(is_inside(path, mount_point) for mount_point in remote):
        return None
    try:
        return os.lstat(path)
    except OSError:
        return None


def _remote_mount_points() -> set[str]:
    """Mount points of network and FUSE file systems."""
    with open(MOUNT_TABLE, encoding="utf-8", errors="surrogateescape", newline="\n") as f:
        mounts = (mount_of(line) for line in f)
        return {mount.point for mount in mounts if mount and may_hang(mount.type)}

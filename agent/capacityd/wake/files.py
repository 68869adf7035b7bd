"""Changes of files, by inotify(7): of those that are there, those that are not there yet, and those behind links.

Below a mount of a server or a program nothing is watched, or even looked at: when that is gone, whoever asks for a file
hangs, and here that is the service.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

TYPE_CHECKING = False  # typing itself would stay in memory
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_BUFFER = 65536
_IN_CREATE, _IN_MOVED, _IN_DELETE, _IN_CLOSE_WRITE, _IN_ATTRIB = 0x100, 0x80 | 0x40, 0x200, 0x8, 0x4
_IN_DELETE_SELF, _IN_MOVE_SELF, _IN_ONLYDIR, _IN_Q_OVERFLOW = 0x400, 0x800, 0x1000000, 0x4000
_MASK = (
    _IN_CREATE | _IN_MOVED | _IN_DELETE | _IN_CLOSE_WRITE | _IN_ATTRIB | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR
)
_TABLE = "/proc/self/mountinfo"
_REMOTE = ("9p", "afs", "autofs", "beegfs", "ceph", "cifs", "fuse", "lustre", "nfs", "smb", "virtiofs")
_APPEARING = 3  # attempts to watch a folder that appears meanwhile


class FileEvents:
    """Changes of files, watched in their folder, or in the nearest one that exists until it does.

    paths: path -> the reason that its change is. Where a link leads is watched as well.
    """

    def __init__(self, paths: dict[str, str]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no more files can be watched (fs.inotify.max_user_instances)")
        self._paths = paths
        self._places: dict[str, str] = {}  # what matters -> the folder that is watched for it
        self._watches: dict[int, str] = {}
        try:
            self._watch()
        except OSError:
            os.close(self._fd)
            raise

    def fileno(self) -> int:
        return int(self._fd)

    def _watch(self) -> None:
        """Watches for each path what must be watched by now, and nothing else: some folders are busy."""
        places: dict[str, str] = {}
        watches: dict[int, str] = {}
        self._remote = _remote()
        for path in self._paths:
            for place in _ways(path, self._remote):
                number, folder = self._nearest(place)
                places[place] = folder
                watches[number] = folder
        for number in self._watches.keys() - watches.keys():
            self._libc.inotify_rm_watch(self._fd, number)
        self._places, self._watches = places, watches

    def _nearest(self, place: str) -> tuple[int, str]:
        """The watch of the nearest folder that exists."""
        for _ in range(_APPEARING):
            below, folder = "", os.path.dirname(place)
            while (number := self._add(folder)) < 0:
                if folder == "/":
                    raise OSError(errno.ENOENT, "nothing can be watched")
                below, folder = folder, os.path.dirname(folder)
            if not below or not os.path.isdir(below):
                break  # else it has appeared just before its parent was watched
        return number, folder

    def _add(self, folder: str) -> int:
        """The number of its watch; below 0 if it can't be watched, because it isn't there."""
        number = int(self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _MASK))
        if number < 0 and (code := ctypes.get_errno()) in (errno.ENOSPC, errno.ENOMEM):
            raise OSError(code, "no more folders can be watched (fs.inotify.max_user_watches)")
        return number

    def drain(self) -> set[str]:
        """Takes all events there are and returns the reasons to look again."""
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
            elif folder := self._watches.get(number):
                yield os.path.join(folder, name) if name else folder

    def close(self) -> None:
        os.close(self._fd)


def _remote() -> set[str]:
    """Where file systems of servers and of programs are mounted."""
    with open(_TABLE, encoding="utf-8", errors="surrogateescape") as f:
        return {line.split(" ")[4] for line in f if line.partition(" - ")[2].startswith(_REMOTE)}


def _ways(path: str, remote: Collection[str]) -> list[str]:
    """All on whose change it depends what the path is: itself, or the links on the way and what they lead to.

    remote: where to go no further.
    """
    found: list[str] = []
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
        if here in found:
            return found  # a circle
        found.append(here)
        left = target.split("/") + left
        here = "" if target.startswith("/") else os.path.dirname(here)
    return [*found, here]


def _concerns(changed: str, watched: str) -> bool:
    """Whether a change of this path may be one of the watched file: it is it, or a folder above it."""
    return changed == watched or changed == "/" or watched.startswith(f"{changed}/")

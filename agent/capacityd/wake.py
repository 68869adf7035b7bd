"""What makes the service look again: udev's events, link changes, files, signals. It hears; it looks at nothing itself.

Memory counts here, because this stays resident: no dataclasses, and no parsing of events beyond what it takes to leave
out the network interfaces of pods, which come and go all day.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import socket
import struct

TYPE_CHECKING = False  # typing itself would stay in memory
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_BUFFER = 65536
_RTMGRP_LINK = 1
_IN_CREATE, _IN_MOVED, _IN_DELETE, _IN_CLOSE_WRITE, _IN_ATTRIB = 0x100, 0x80 | 0x40, 0x200, 0x8, 0x4
_IN_DELETE_SELF, _IN_MOVE_SELF, _IN_ONLYDIR, _IN_Q_OVERFLOW = 0x400, 0x800, 0x1000000, 0x4000
_MASK = (
    _IN_CREATE | _IN_MOVED | _IN_DELETE | _IN_CLOSE_WRITE | _IN_ATTRIB | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR
)
_APPEARING = 3  # attempts to watch a folder that appears meanwhile
_POD = b"veth"
_AF_BRIDGE = b"\7"
_SIGNALS = {signal.SIGHUP: "reload", signal.SIGTERM: "stop", signal.SIGINT: "stop", signal.SIGCHLD: "child"}


class UdevEvents:
    """Events of these subsystems, after udev's rules have run. The kernel filters them; the others don't wake us."""

    def __init__(self, subsystems: Sequence[str]) -> None:
        # libudev itself rather than pyudev, which would keep 3 MiB here for these five calls (libudev(3)).
        self._udev = udev = ctypes.CDLL("libudev.so.1", use_errno=True)
        udev.udev_new.restype = udev.udev_monitor_new_from_netlink.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(udev.udev_new())
        self._monitor = ctypes.c_void_p(udev.udev_monitor_new_from_netlink(self._context, b"udev"))
        if not self._monitor:
            raise OSError(ctypes.get_errno(), "udev's events can't be listened to")
        for subsystem in subsystems:
            udev.udev_monitor_filter_add_match_subsystem_devtype(self._monitor, os.fsencode(subsystem), None)
        if udev.udev_monitor_enable_receiving(self._monitor) < 0:
            raise OSError(ctypes.get_errno(), "udev's events can't be listened to")
        # Reading ourselves: what an event says does not matter, and an overflow has to be read away.
        self._socket = socket.socket(fileno=os.dup(udev.udev_monitor_get_fd(self._monitor)))

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[str]:
        """Takes all events there are and returns the reasons to look again."""
        return {"hardware"} if _drain(self._socket, lambda data: b"ID_NET_DRIVER=veth\0" not in data) else set()

    def close(self) -> None:
        self._socket.close()
        self._udev.udev_monitor_unref(self._monitor)
        self._udev.udev_unref(self._context)


class LinkEvents:
    """Changes of network interfaces (rtnetlink): the carrier and a new name send no udev event."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.setblocking(False)
        self._socket.bind((0, _RTMGRP_LINK))

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[str]:
        """Takes all events there are and returns the reasons to look again."""
        return {"hardware"} if _drain(self._socket, _counts) else set()

    def close(self) -> None:
        self._socket.close()


def _drain(source: socket.socket, counts: Callable[[bytes], bool]) -> bool:
    """Whether any of the messages counts. An overflow does: what was lost is not known."""
    heard = False
    while True:
        try:
            data = source.recv(_BUFFER, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return heard
        except OSError as e:
            if e.errno != errno.ENOBUFS:
                raise
            heard = True  # reading has cleared the error; the next recv goes on
            continue
        heard = counts(data) or heard


def _counts(data: bytes) -> bool:
    """Whether an rtnetlink message is about more than a pod: neither its interface, nor as what that is in a bridge."""
    return data[16:17] != _AF_BRIDGE and _POD not in _link_kind(data)


def _link_kind(data: bytes) -> bytes:
    """The kind of a link in an RTM_NEWLINK or RTM_DELLINK (rtnetlink(7)): b"" if it has none."""
    return _attribute(_attribute(data[32:], 18), 1)


def _attribute(data: bytes, wanted: int) -> bytes:
    while len(data) >= 4:
        length, kind = struct.unpack_from("HH", data)
        if length < 4:
            break
        if kind & 0x3FFF == wanted:
            return data[4:length]
        data = data[(length + 3) & ~3 :]
    return b""


class FileEvents:
    """Changes of files, watched in their folder, or in the nearest one that exists until it does.

    paths: path -> the reason that its change is. Where a link leads is watched as well.
    """

    def __init__(self, paths: dict[str, str]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
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
        for path in self._paths:
            for place in _ways(path):
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
            for place in _ways(path)
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


def _ways(path: str) -> list[str]:
    """All on whose change it depends what the path is: itself, or the links on the way and what they lead to."""
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


class Signals:
    """Signals, made readable: SIGHUP, SIGTERM, SIGINT, SIGCHLD as the reasons reload, stop, stop and child."""

    def __init__(self) -> None:
        self._read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)

    def fileno(self) -> int:
        return self._read

    def drain(self) -> set[str]:
        """The reasons for which signals have come."""
        found: set[str] = set()
        while select.select([self._read], [], [], 0)[0]:
            found |= {_SIGNALS[signal.Signals(n)] for n in os.read(self._read, 512) if n in _SIGNALS}
        return found

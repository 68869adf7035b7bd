"""What the kernel itself tells: links that change, addresses that come and go, file systems that are mounted.

On a node all of it happens all day for pods. What only they need is left out here, so that a pod that starts wakes
nobody.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct

from capacityd.pods import is_of_pods

TYPE_CHECKING = False  # typing itself would stay in memory
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BUFFER = 65536
_LINK, _IPV4, _IPV6 = 0x1, 0x10, 0x100  # RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR
_POD = b"veth"
_AF_BRIDGE = b"\7"
_NEWADDR, _DELADDR = 20, 21
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFLA_LINKINFO, _IFLA_INFO_KIND = 18, 1
_SCOPE_LINK = 253  # and above: host, nowhere
_TABLE = "/proc/self/mountinfo"
_TYPES = ("bcachefs", "btrfs", "ceph", "cifs", "jffs2", "nfs", "nfs4", "smb3", "ubifs", "zfs")


class LinkEvents:
    """Changes of network interfaces (rtnetlink): the carrier and a new name send no udev event."""

    def __init__(self) -> None:
        self._socket = _listen(_LINK)

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[str]:
        """Takes all events there are and returns the reasons to look again."""
        return {"hardware"} if any_counts(self._socket, _is_of_a_link) else set()

    def close(self) -> None:
        self._socket.close()


class AddressEvents:
    """Addresses of interfaces that are new or gone (rtnetlink). That of a pod's own link is no address to count, and
    one that only lives longer, as each router's advertisement says, is none that is new."""

    def __init__(self) -> None:
        self._socket = _listen(_IPV4 | _IPV6)
        self._known: set[bytes] = set()

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> set[str]:
        """Takes all events there are and returns the reasons to look again."""
        return {"hardware"} if any_counts(self._socket, self._any_counts) else set()

    def close(self) -> None:
        self._socket.close()

    def _any_counts(self, data: bytes) -> bool:
        counts = [self._counts(*message) for message in _parts(data, "IH", 16)]  # all of them: each tells what is known
        return any(counts)

    def _counts(self, kind: int, message: bytes) -> bool:
        if kind not in (_NEWADDR, _DELADDR) or len(message) < 8 or message[3] >= _SCOPE_LINK:
            return False
        told = [bytes([what]) + value for what, value in _parts(message[8:]) if what in (_IFA_ADDRESS, _IFA_LOCAL)]
        address = message[:2] + message[3:8] + b"".join(told)
        if kind == _DELADDR:
            self._known.discard(address)
            return True
        new = address not in self._known
        self._known.add(address)
        return new


class MountEvents:
    """File systems that are mounted or no more: of all that the kernel lists, those that stand on something."""

    def __init__(self) -> None:
        self._file = os.open(_TABLE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # An exception is the event; readable the table is always (proc_pid_mountinfo(5)).
            self._epoll = select.epoll()
            self._epoll.register(self._file, select.EPOLLPRI | select.EPOLLERR)
            self._known = _mounted(self._file)
        except OSError:
            os.close(self._file)
            raise

    def fileno(self) -> int:
        return self._epoll.fileno()

    def drain(self) -> set[str]:
        """Takes all events there are and returns the reasons to look again."""
        self._epoll.poll(0)
        before, self._known = self._known, _mounted(self._file)
        return {"hardware"} if self._known != before else set()

    def close(self) -> None:
        self._epoll.close()
        os.close(self._file)


def _listen(groups: int) -> socket.socket:
    heard = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    heard.setblocking(False)
    heard.bind((0, groups))
    return heard


def any_counts(source: socket.socket, counts: Callable[[bytes], bool]) -> bool:
    """Takes all messages there are; whether any of them counts. An overflow does: what was lost is not known."""
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


def _is_of_a_link(data: bytes) -> bool:
    """Whether an rtnetlink message is about more than a pod: neither its interface, nor as what that is in a bridge."""
    return data[16:17] != _AF_BRIDGE and _POD not in _link_kind(data)


def _link_kind(data: bytes) -> bytes:
    """IFLA_INFO_KIND of an interface that software has made, such as veth; empty for hardware."""
    return _attribute(_attribute(data[32:], _IFLA_LINKINFO), _IFLA_INFO_KIND)


def _attribute(data: bytes, wanted: int) -> bytes:
    return next((value for kind, value in _parts(data) if kind == wanted), b"")


def _parts(data: bytes, header: str = "HH", size: int = 4) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each attribute; of each message, if the header, size bytes of it, is a message's."""
    while len(data) >= size:
        length, kind = struct.unpack_from(header, data)
        if length < size:
            return
        yield kind & 0x3FFF, data[size:length]
        data = data[(length + 3) & ~3 :]


def _mounted(file: int) -> frozenset[tuple[str, str]]:
    """Number and mount point of each file system that counts."""
    os.lseek(file, 0, os.SEEK_SET)
    table = b""
    while piece := os.read(file, _BUFFER):
        table += piece
    found = []
    for line in os.fsdecode(table).split("\n"):
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or is_of_pods(fields[4]):
            continue
        if not fields[2].startswith("0:") or after.partition(" ")[0] in _TYPES:
            found.append((fields[2], fields[4]))
    return frozenset(found)

"""Sends udev events over real netlink, as udevd does, to every listener in a network namespace."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_KOBJECT_UEVENT = 15
_UDEV_GROUP = 2
_MAGIC = 0xFEEDCAFE
_HEADER_SIZE = 40  # bytes of libudev's struct monitor_netlink_header, which the properties follow


@contextmanager
def network_of(namespace: Path) -> Iterator[None]:
    """Moves this thread to a network namespace, such as /proc/PID/ns/net. Sockets that it creates there stay there."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(fd: int) -> None:
        if libc.setns(fd, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")

    ours, theirs = (os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in ("/proc/thread-self/ns/net", namespace))
    try:
        enter(theirs)
        try:
            yield
        finally:
            enter(ours)
    finally:
        os.close(ours)
        os.close(theirs)


class UdevSender:
    """Sends events as udevd does once it has applied its rules. Needs CAP_NET_ADMIN in the namespace."""

    def __init__(self, namespace: Path) -> None:
        with network_of(namespace):
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _KOBJECT_UEVENT)
        self._number = 0

    def send(self, action: str, path: str, subsystem: str, devtype: str = "", **properties: str) -> None:
        """Sends an event of a device. path: the device's path, with or without /sys."""
        self._number += 1
        fields = {"ACTION": action, "DEVPATH": path.removeprefix("/sys"), "SUBSYSTEM": subsystem}
        fields |= {"SEQNUM": str(self._number), **properties, **({"DEVTYPE": devtype} if devtype else {})}
        self.send_raw(b"".join(f"{name}={value}\0".encode() for name, value in fields.items()), subsystem, devtype)

    def send_raw(self, body: bytes, subsystem: str, devtype: str = "") -> None:
        """Sends an event with these properties, which may be malformed. Filters see only the other arguments."""
        # The kernel filters events for listeners by hashes of subsystem and devtype and a Bloom filter of the tags.
        header_size, body_begins_at = _HEADER_SIZE, _HEADER_SIZE
        head = struct.pack("<8sIIII", b"libudev\0", socket.htonl(_MAGIC), header_size, body_begins_at, len(body))
        hashes = [_murmur2(text.encode()) if text else 0 for text in (subsystem, devtype)]
        no_tags = (0, 0)  # the two halves of the Bloom filter
        groups = 1 << (_UDEV_GROUP - 1)
        self._socket.sendto(head + struct.pack(">IIII", *hashes, *no_tags) + body, (0, groups))

    def close(self) -> None:
        self._socket.close()


def _murmur2(data: bytes) -> int:
    """MurmurHash2 with seed 0, as in systemd."""
    multiplier, number = 0x5BD1E995, len(data)
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * multiplier & 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 24) * multiplier & 0xFFFFFFFF
        number = number * multiplier & 0xFFFFFFFF ^ mixed
    if rest := data[whole:]:
        number = (number ^ int.from_bytes(rest, "little")) * multiplier & 0xFFFFFFFF
    number = (number ^ number >> 13) * multiplier & 0xFFFFFFFF
    return number ^ number >> 15

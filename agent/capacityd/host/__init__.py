"""The one door to the machine. What comes through it is plain text and numbers, safe to print; errors are HostError."""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from capacityd.errors import HostError


@dataclass(frozen=True, slots=True)
class Content:
    """A file's content and its age in seconds."""

    text: str
    age: float


@dataclass(frozen=True, slots=True)
class Output:
    """What a program said before it ended with this exit status (negative: killed by that signal)."""

    status: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address of an interface. family: ipv4 or ipv6. prefix: bits of its network. scope: global, site, link, host
    or the kernel's number for another. temporary: one of IPv6's that change for privacy."""

    interface: str
    family: str
    address: str
    prefix: int
    scope: str
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class System:
    """The names of the devices that the machine itself stands on. doubt: why there may be more, "" if all are told."""

    names: frozenset[str]
    doubt: str = ""

    def has(self, name: str) -> bool:
        """Whether this one is the system's. Raises HostError if that can't be told: a wrong "no" hands out the disk
        or the link that the machine runs on."""
        if name not in self.names and self.doubt:
            raise HostError(self.doubt)
        return name in self.names


class Host(Protocol):
    """A machine, live or recorded. Every method may raise HostError: then what it would have said is unknown."""

    def names(self, folder: str) -> Sequence[str]:
        """What a folder holds, sorted; nothing if there is no such folder."""

    def text(self, path: str) -> str | None:
        """A small file's text without white space around it; None if there is no such file."""

    def resolve(self, path: str) -> str | None:
        """The path with all links followed; None if it leads nowhere."""

    def properties(self, device: str) -> Mapping[str, str]:
        """What udev's database says of the device at this path in /sys."""

    def hardware_names(self, modalias: str) -> Mapping[str, str]:
        """What udev's hardware database says of this modalias (ID_VENDOR_FROM_DATABASE, …); nothing if it has none."""

    def link_speeds(self, interface: str) -> Sequence[int]:
        """The speeds in bit/s of the link modes that an interface supports; empty if its driver names none."""

    def link_kind(self, interface: str) -> str:
        """What software makes an interface, as "ip -details link" says it: team, macvlan, …; "" for hardware."""

    def default_interfaces(self) -> Sequence[str]:
        """The names of the interfaces that default routes leave by."""

    def addresses(self) -> Sequence[Address]:
        """The addresses of all interfaces."""

    def filesystem_size(self, point: str, mounts: Collection[str]) -> int:
        """The size in bytes of the file system that is mounted there. mounts: the kernel's ids of its mounts."""

    def lines(self, path: str) -> Sequence[str]:
        """A text file's lines, or what stands between its NUL bytes, tabs as spaces; nothing if there is no such."""

    def content(self, path: str, most: int) -> Content:
        """A file of at most this many bytes; HostError also if it is missing."""

    def run(self, command: Sequence[str], timeout: float) -> Output:
        """Runs a program to its end, at most timeout seconds; nothing that it started is left afterwards."""

    def changed(self, path: str) -> float | None:
        """When a file or socket was made or changed (ctime), in seconds since the epoch; None if there is none."""

    def arch(self) -> str:
        """The machine's architecture as uname -m says it."""

    def hostname(self) -> str:
        """The machine's host name."""


def whole(host: Host, path: str) -> int | None:
    """The whole number that a small file holds, None if there is no such file. Raises HostError if it holds none."""
    text = host.text(path)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise HostError(f'{path} holds "{text[:60]}", not a whole number')
    return int(text)


def driver_text(host: Host, path: str) -> str | None:
    """As host.text, None also for what drivers say that have no such thing: EINVAL, EOPNOTSUPP."""
    try:
        return host.text(path)
    except HostError as e:
        if e.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        return None


def last_name(path: str | None) -> str | None:
    """The last part of a path: the name of the driver or bus that a link in /sys leads to."""
    return None if path is None else path.rpartition("/")[2]


def machine_id(host: Host) -> str:
    """The machine's id (machine-id(5)), "" if it has none."""
    return host.text("/etc/machine-id") or ""

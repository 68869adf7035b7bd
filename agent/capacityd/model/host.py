"""The interface to the machine and its values: plain text and numbers that are safe to print. Errors are HostError."""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from capacityd.model.errors import HostError
from capacityd.model.quantity import number_in


@dataclass(frozen=True, slots=True)
class Content:
    """A file's content and its age in seconds."""

    text: str
    age: float


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a program that has ended. status: its exit status; negative: the signal that killed it."""

    status: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address of an interface."""

    interface: str
    family: str
    """ipv4 or ipv6"""
    address: str
    prefix: int
    """The length of the network's prefix, in bits."""
    scope: str
    """global, site, link, host, or the number of another scope: rtnetlink(7)."""
    temporary: bool = False
    """A temporary IPv6 address: RFC 8981."""


@dataclass(frozen=True, slots=True)
class Processors:
    """The processors that are online. None: the machine does not report it."""

    cores: int | None
    """Physical cores."""
    threads: int | None
    """Logical processors: several for each core with SMT (Hyper-Threading)."""
    sockets: int | None
    """Packages that the cores are in."""
    max_frequency: int | None
    """The highest frequency of the fastest one, in Hz."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The machine's memory, free or not, in bytes."""

    size: int
    """What the kernel manages: less than what is installed by what firmware and the kernel itself take at boot."""
    swap: int
    """All swap areas together; 0: the machine has none."""


@dataclass(frozen=True, slots=True)
class SystemDevices:
    """The devices that the operating system depends on."""

    names: frozenset[str]
    incomplete_because: str = ""
    """Why the list may be incomplete."""

    def has(self, name: str) -> bool:
        """Whether the system depends on this device.

        Raises HostError if that is unknown: a wrong "no" would give pods what the machine runs on.
        """
        if name not in self.names and self.incomplete_because:
            raise HostError(self.incomplete_because)
        return name in self.names


class Host(Protocol):
    """A machine, live or recorded. Every method may raise HostError: then the value is unknown."""

    def listdir(self, folder: str) -> Sequence[str]:
        """The names in a folder, sorted; empty if there is no such folder."""

    def text(self, path: str) -> str | None:
        """The text of a small file, without surrounding white space; None if there is no such file."""

    def resolve(self, path: str) -> str | None:
        """The path with all links followed; None if it leads nowhere."""

    def exists(self, path: str) -> bool:
        """Whether the path leads to something. HostError if a recording does not show it."""

    def properties(self, device: str) -> Mapping[str, str]:
        """All properties in udev's database of the device at this path in /sys."""

    def property(self, device: str, *names: str) -> str | None:
        """The first of these properties of a device that is not empty; None if it has none of them.

        Of thousands of devices this takes half the time of properties().
        """

    def hardware_names(self, modalias: str) -> Mapping[str, str]:
        """The properties in udev's hardware database for this modalias, such as ID_VENDOR_FROM_DATABASE."""

    def link_speeds(self, interface: str) -> Sequence[int]:
        """The speeds in bit/s of the link modes that an interface supports; empty if its driver names none."""

    def link_kind(self, interface: str) -> str:
        """The kind of a virtual interface, as `ip -details link` shows it: team, macvlan, …; "" for hardware."""

    def default_interfaces(self) -> Sequence[str]:
        """The names of the interfaces that default routes leave by."""

    def addresses(self) -> Sequence[Address]:
        """The addresses of all interfaces."""

    def processors(self) -> Processors:
        """The processors that are online."""

    def memory(self) -> Memory:
        """The size of memory and swap."""

    def filesystem_size(self, point: str, mounts: Collection[str]) -> int:
        """The size in bytes of the file system that is mounted there. mounts: its mount ids."""

    def lines(self, path: str) -> Sequence[str]:
        """The lines of a text file, or its NUL-separated parts, with tabs as spaces; empty if there is no such file."""

    def read_file(self, path: str, most: int) -> Content:
        """A file of at most this many bytes; HostError even if it is only missing."""

    def run(self, command: Sequence[str], timeout: float) -> Output:
        """Runs a program to its end, at most timeout seconds; nothing that it started is left afterwards."""

    def ctime(self, path: str) -> float | None:
        """When a file or socket was made or changed (ctime), in seconds since the epoch; None if there is none."""

    def arch(self) -> str:
        """The architecture, as uname -m prints it."""

    def hostname(self) -> str:
        """The machine's host name."""


def read_int(host: Host, path: str) -> int | None:
    """The whole number that a small file holds, None if there is no such file. Raises HostError if it holds none."""
    text = host.text(path)
    if text is None:
        return None
    number = number_in(text)
    if number is None:
        raise HostError(f'{path} holds "{text[:60]}", not a whole number')
    return number


def read_optional_attr(host: Host, path: str) -> str | None:
    """As host.text, but also None if the driver reports that it has no such value: EINVAL, EOPNOTSUPP."""
    try:
        return host.text(path)
    except HostError as e:
        if e.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        return None


def resolve_link(host: Host, path: str) -> str | None:
    """As host.resolve, but raises HostError if the link exists and leads nowhere: then its target is unknown."""
    target = host.resolve(path)
    if target is None:
        folder, _, name = path.rpartition("/")
        if name in host.listdir(folder):
            raise HostError(f"{path} leads nowhere")
    return target


def link_name(host: Host, path: str) -> str | None:
    """The name that a link in /sys leads to: for example of the driver. None if there is no such link.

    Raises HostError if the link can't be resolved.
    """
    return basename(resolve_link(host, path))


def uevent_value(host: Host, device: str, name: str) -> str | None:
    """A variable of the uevent of the device at this path in /sys; None if it has none of this name."""
    lines = host.lines(f"{device}/uevent")
    return next((line.partition("=")[2] for line in lines if line.startswith(f"{name}=")), None)


def basename(path: str | None) -> str | None:
    """The last part of a path: the name of the driver or bus that a link in /sys leads to."""
    return None if path is None else path.rpartition("/")[2]


def machine_id(host: Host) -> str:
    """The machine's id (machine-id(5)), "" if it has none."""
    return host.text("/etc/machine-id") or ""

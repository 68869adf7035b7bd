"""The interface to the machine. All errors are HostErrors."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from capacityd.model.errors import HostError
from capacityd.model.quantity import number_in
from capacityd.model.quoting import length_text, quoted


@dataclass(frozen=True, slots=True)
class Content:
    """A file's content and age."""

    lines: tuple[str, ...]
    """The printable lines. White space at the start and end of the file and at the end of each line is removed."""
    age: float
    """Seconds since the file was last modified."""

    @property
    def text(self) -> str:
        """The content as one line, with an escape for each line break."""
        return r"\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a program that has ended."""

    status: int
    """The exit status. A negative number is the signal that killed the program."""
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address of an interface."""

    interface: str
    """The interface's name in /sys. The name may contain unprintable characters."""
    family: str
    """ipv4 or ipv6"""
    address: str
    prefix: int
    """The length of the network prefix in bits."""
    scope: str
    """global, site, link, host, or the number of another scope (rtnetlink(7))."""
    temporary: bool = False
    """Whether this is a temporary IPv6 address (RFC 8981)."""


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """The machine's total memory and swap, in bytes."""

    size: int
    """The memory that the kernel manages: the installed memory minus what firmware and kernel reserve at boot."""
    swap: int
    """The total size of all swap areas; 0 if there are none."""


@dataclass(frozen=True, slots=True)
class SystemDevices:
    """The devices that the operating system depends on."""

    names: frozenset[str]
    incomplete_because: str = ""
    """Why the list may be incomplete; "" if it is complete."""

    def has(self, *names: str) -> bool:
        """Whether the system depends on one of these devices.

        Raises HostError if the answer is unknown. A wrong "no" would give pods a device that the machine needs.
        """
        if self.names.isdisjoint(names) and self.incomplete_because:
            raise HostError(self.incomplete_because)
        return not self.names.isdisjoint(names)


class Host(Protocol):
    """A machine, live or recorded. Every method may raise HostError, which means that the value is unknown.

    Names and paths are unchanged. All other texts except that of raw() are printable.
    """

    def listdir(self, folder: str) -> Sequence[str]:
        """The names in a folder, sorted; empty if the folder does not exist."""

    def text(self, path: str) -> str | None:
        """The text of a small file, without surrounding white space; None if the file does not exist."""

    def resolve(self, path: str) -> str | None:
        """The path with all links resolved; None if its target does not exist."""

    def exists(self, path: str) -> bool:
        """Whether the path's target exists. Raises HostError if a recording does not contain the answer."""

    def properties(self, device: str) -> Mapping[str, str]:
        """All properties in udev's database for the device at this path in /sys."""

    def property(self, device: str, *names: str) -> str | None:
        """The first non-empty value of these properties of a device; None if there is none. properties() is slower."""

    def link_modes(self, interface: str) -> Sequence[str]:
        """The link modes that an interface supports, such as 1000baseT/Full; empty if the driver reports none."""

    def link_kind(self, interface: str) -> str:
        """The kind of a virtual interface, as `ip -details link` shows it: team, macvlan, …; "" for hardware."""

    def linked_interface(self, interface: str) -> str:
        """The interface that a virtual interface uses, or the other end of a veth pair; "" if this network namespace
        has no such interface. `ip link` shows the interface behind an @."""

    def default_interfaces(self) -> Sequence[str]:
        """The names of the interfaces that default routes use."""

    def addresses(self) -> Sequence[Address]:
        """The addresses of all interfaces."""

    def processors(self, measure: str) -> int | None:
        """A measure of the online processors; None if the machine does not report it.

        measure: "cores", "threads", "sockets", or "max_frequency" (in Hz).
        """

    def memory(self) -> MachineMemory:
        """The size of memory and swap."""

    def filesystem_size(self, point: str, mount_ids: Collection[str]) -> int:
        """The size in bytes of the file system mounted at this point; 0 if the file system reports none.

        mount_ids: the ids of the file system's mounts (the first field of mountinfo). Raises HostError if the mount at
        this point has another id, because another file system is then mounted over the wanted one.
        """

    def lines(self, path: str) -> Sequence[str]:
        """The non-empty lines of a text file; empty if the file does not exist.

        A NUL also ends a line, because NULs separate the items of a list in some kernel files. A tab becomes a space.
        """

    def raw(self, path: str, limit: int) -> str:
        """A file's content, unchanged. Bytes that are not UTF-8 become surrogates.

        Raises HostError if the file is missing, or is longer than limit bytes (errno EFBIG).
        """

    def read_file(self, path: str, limit: int) -> Content:
        """A file's content and age. Raises HostError if the file is missing, or is longer than limit bytes."""

    def run(self, command: Sequence[str], timeout: float) -> Output:
        """Runs a program for at most timeout seconds. Ends all child processes that the program leaves."""

    def sandbox_advice(self, paths: Sequence[str], *, program_failed: bool = False) -> str:
        """The end of a message about these paths: the service's sandbox may deny them; "" if it does not.

        program_failed: whether the paths come from the command of a program that failed.
        """

    def arch(self) -> str:
        """The architecture, as uname -m prints it."""

    def hostname(self) -> str:
        """The machine's host name."""


def read_int(host: Host, path: str) -> int | None:
    """The whole number in a small file; None if the file does not exist. Raises HostError for any other content."""
    text = host.text(path)
    return None if text is None else whole_number_in(text, path)


def whole_number_in(text: str, name: str) -> int:
    """The whole number in a text. name: the text's name in the message. Raises HostError for any other text."""
    number = number_in(text)
    if number is None:
        raise HostError(f"{name} is not a whole number from 0 up ({length_text(text)})", detail=f"it is {quoted(text)}")
    return number


def read_optional_attr(host: Host, path: str) -> str | None:
    """The text of a driver's file; None if the file is missing, or if the driver has no value for it."""
    try:
        return host.text(path)
    except HostError as e:
        if e.errno in (errno.EINVAL, errno.EOPNOTSUPP):  # the driver has no value
            return None
        raise


def resolve_link(host: Host, path: str) -> str | None:
    """A link's target; None if the link does not exist. Raises HostError if the link exists without its target."""
    target = host.resolve(path)
    if target is None:
        folder, _, name = path.rpartition("/")
        if name in host.listdir(folder):
            raise HostError(f"{path} is a dangling link")
    return target


def link_name(host: Host, path: str) -> str | None:
    """The last part of a link's target, for example a driver's name; None if the link does not exist.

    Raises HostError if the link can't be resolved.
    """
    target = resolve_link(host, path)
    return None if target is None else os.path.basename(target)


def device_of(host: Host, path: str) -> str:
    """The path of the hardware behind a disk or interface in /sys. For a software interface, the path does not exist.

    Raises HostError if the link to the device is dangling.
    """
    resolve_link(host, f"{path}/device")
    return f"{path}/device"


def device_and_above(device: str) -> Iterator[str]:
    """Yields the path of a device in /sys/devices, and then the paths of its parent folders, nearest first."""
    while device.startswith("/sys/devices/"):
        yield device
        device, _, _ = device.rpartition("/")


def uevent_value(host: Host, device: str, name: str) -> str | None:
    """A variable in the uevent file of the device at this path in /sys; None if it is missing."""
    for line in host.lines(f"{device}/uevent"):
        if line.startswith(f"{name}="):
            return line.removeprefix(f"{name}=")
    return None


def machine_id(host: Host) -> str:
    """The machine id (machine-id(5)); "" if the machine has none."""
    return host.text("/etc/machine-id") or ""


def system_uuid(host: Host) -> str:
    """The machine's UUID from the firmware or hypervisor; "" if it can't be read. Only root can read the UUID."""
    try:
        return host.text("/sys/class/dmi/id/product_uuid") or ""
    except HostError:
        return ""

"""This machine as a Host. Plain system calls read /sys and /proc, because libudev is several times slower. Only udev's
properties come from libudev."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyudev

from capacityd.host import cpu_memory
from capacityd.host.ethtool import supported_modes
from capacityd.host.filesystems import filesystem_size
from capacityd.host.network import Link, addresses, links
from capacityd.host.program import run_trusted
from capacityd.host.regular_file import (
    ABSENT,
    MAX_ATTRIBUTE_BYTES,
    MAX_TABLE_BYTES,
    nonempty_lines,
    read_optional_text,
    read_regular,
    read_text,
    stripped_lines,
    text_of,
    unreadable,
)
from capacityd.host.routes import default_interfaces
from capacityd.linux.opening import UntrustedLink, data_exists, open_data_file
from capacityd.linux.sandbox import sandbox_advice
from capacityd.model.errors import Cause, HostError
from capacityd.model.host import Content, MachineMemory
from capacityd.model.quoting import quoted
from capacityd.model.text import printable

_DELETED = " (deleted)"  # the kernel appends this text to the path of a removed file
_UDEV_DATABASE = "/run/udev/data"


class LiveHost:
    """The machine on which this process runs, as a Host (model/host.py, which describes the methods).

    scandir() and readlink() are not methods of a Host. Only the recorder calls them.
    """

    def __init__(self) -> None:
        self._links: Mapping[str, Link] = {}
        self._udev: Any = None  # one pyudev.Context for all devices, because each Context takes 65 KiB

    def listdir(self, folder: str) -> Sequence[str]:
        try:
            return sorted(os.listdir(folder))
        except OSError as e:
            if folder.startswith("/sys/") and not os.path.isdir("/sys/devices"):
                raise unreadable(folder, e) from e  # sysfs is not mounted, so nothing is known about the folder
            if e.errno in ABSENT:
                return ()
            raise unreadable(folder, e) from e

    def text(self, path: str) -> str | None:
        content = read_optional_text(path, MAX_ATTRIBUTE_BYTES)
        return None if content is None else text_of(content)

    def resolve(self, path: str) -> str | None:
        try:
            # Let the kernel resolve the path: realpath() in Python takes ten times as long. O_PATH opens no device.
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                real = os.readlink(f"/proc/self/fd/{fd}")
            finally:
                os.close(fd)
            was_removed = real.endswith(_DELETED) and not os.path.lexists(real)
            return None if was_removed else real
        except OSError as e:
            if e.errno in ABSENT:
                return None
            raise unreadable(path, e) from e

    def exists(self, path: str) -> bool:
        # The configuration names this path. Another user could put a link in it, and learn which secret files exist.
        try:
            return data_exists(path)
        except UntrustedLink as e:
            raise HostError(f"{path} could not be checked: {e}", cause=Cause.NOT_TRUSTED) from e
        except OSError as e:
            raise unreadable(path, e) from e

    def properties(self, device: str) -> Mapping[str, str]:
        with self._udev_properties(device) as values:
            return {printable(name): _property(values, name) for name in values}

    def property(self, device: str, *names: str) -> str | None:
        with self._udev_properties(device) as values:
            for name in names:
                if value := _property(values, name):
                    return value
        return None

    @contextmanager
    def _udev_properties(self, device: str) -> Iterator[Mapping[str, str]]:
        """A context with udev's properties of a device. pyudev's exceptions in the with block become HostErrors."""
        try:
            # libudev would take an unreadable file for an empty one, so text() reads it first, and raises HostError.
            self.text(f"{device}/uevent")
            if self._udev is None:
                self._udev = pyudev.Context()
            # The path is bytes, because an interface's name need not be UTF-8, and pyudev encodes only UTF-8.
            udev_device = pyudev.Devices.from_sys_path(self._udev, os.fsencode(device))
            if not udev_device.is_initialized:
                self._raise_if_rules_may_apply(device, udev_device)
            yield udev_device.properties
        except pyudev.DeviceNotFoundError as e:
            raise HostError("udev does not know the device", errno.ENOENT) from e
        except (OSError, LookupError, ValueError, AttributeError, TypeError) as e:  # all that pyudev may raise
            # The exception may quote a property, so its text is only in the detail, which no log contains.
            why = f"udev's properties of the device could not be read: {type(e).__name__}"
            raise HostError(why, detail=quoted(printable(str(e)))) from e

    def _raise_if_rules_may_apply(self, device: str, udev_device: Any) -> None:
        """Raises HostError if a rule of udev may apply to a device for which libudev has found no entry. In this case,
        the device's properties are unknown, not missing.

        udevd makes an entry for each device node (with a file dev) and for each network interface (with a file
        ifindex). For any other device, such as a PCI function, udevd makes an entry only if a rule applies.
        """
        if self.text(f"{device}/dev") or self.text(f"{device}/ifindex"):
            raise HostError("udev has not processed the device yet")
        if self.resolve(_UDEV_DATABASE) is None:
            raise HostError(f"udev has not processed the device yet: {_UDEV_DATABASE} does not exist")
        # The name of an entry for a device with neither a device node nor an ifindex.
        entry = f"{_UDEV_DATABASE}/+{udev_device.subsystem}:{udev_device.sys_name}"
        if self.resolve(entry) is not None:
            raise HostError("udev's entry for the device could not be read")

    # Methods of Host that do not need self.
    raw = staticmethod(read_text)
    run = staticmethod(run_trusted)
    link_modes = staticmethod(supported_modes)
    default_interfaces = staticmethod(default_interfaces)
    addresses = staticmethod(addresses)
    filesystem_size = staticmethod(filesystem_size)
    sandbox_advice = staticmethod(sandbox_advice)

    def link_kind(self, interface: str) -> str:
        return self._link(interface).kind

    def linked_interface(self, interface: str) -> str:
        return self._link(interface).linked_interface

    def _link(self, interface: str) -> Link:
        """An interface, from a list that the first call reads. Raises HostError, also if the list does not name it."""
        if not self._links:
            self._links = links()
        if interface not in self._links:
            raise HostError(f"the interface {interface} does not exist", errno.ENODEV)
        return self._links[interface]

    def memory(self) -> MachineMemory:
        return cpu_memory.memory(self)

    def processors(self, measure: str) -> int | None:
        return cpu_memory.PROCESSOR_MEASURES[measure](self)

    def lines(self, path: str) -> Sequence[str]:
        return nonempty_lines(read_optional_text(path, MAX_TABLE_BYTES) or "")

    def read_file(self, path: str, limit: int) -> Content:
        # The configuration names this path. open_data_file() refuses a link that lets another user choose the file.
        raw, modified_epoch = read_regular(path, limit, opener=open_data_file)
        lines = stripped_lines(raw.decode("utf-8", "surrogateescape"))
        return Content(lines, age=time.time() - modified_epoch)

    def arch(self) -> str:
        return os.uname().machine

    def hostname(self) -> str:
        return printable(os.uname().nodename)

    def scandir(self, folder: str) -> Mapping[str, str]:
        """The entries of a folder, sorted: name -> "file", "folder" or "link".

        Raises HostError, also if the folder does not exist.
        """
        try:
            with os.scandir(folder) as entries:
                kinds = {entry.name: _kind(entry) for entry in entries}
            return dict(sorted(kinds.items()))
        except OSError as e:
            raise unreadable(folder, e) from e

    def readlink(self, path: str) -> str:
        """The target of a link, unchanged. Raises HostError."""
        try:
            return os.readlink(path)
        except OSError as e:
            raise unreadable(path, e) from e


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    return "folder" if entry.is_dir() else "file"


def _property(properties: Mapping[str, str], name: str) -> str:
    """The value of a property; "" if the device lacks it."""
    try:
        return printable(properties.get(name, ""))
    except UnicodeDecodeError as e:
        # pyudev raises this for a device's strings that are not UTF-8. The exception contains the bytes.
        return printable(bytes(e.object))

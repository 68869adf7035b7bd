"""This machine: /sys and /proc by plain system calls (several times faster than libudev), libudev for properties."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection, Mapping, Sequence

from capacityd.errors import HostError
from capacityd.host import Address, Content, Output
from capacityd.printable import printable

_MOST = 65536
_MOST_LINES = 16 * 1024 * 1024  # a router's table of routes
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO)
_NO_TEXT = (*_GONE, errno.EISDIR)


class LiveHost:
    """The machine that this runs on."""

    def names(self, folder: str) -> Sequence[str]:
        try:
            return sorted(os.listdir(folder))
        except OSError as e:
            if e.errno in _GONE and (not folder.startswith("/sys/") or os.path.isdir("/sys/devices")):
                return ()
            raise _unreadable(folder, e) from e  # without a sysfs at all, nothing can be known of it

    def text(self, path: str) -> str | None:
        raw = _read(path, _MOST)
        return None if raw is None else printable(raw.strip(b" \t\n\0"))

    def resolve(self, path: str) -> str | None:
        try:
            return os.path.realpath(path, strict=True)
        except OSError as e:
            if e.errno in _GONE:
                return None
            raise _unreadable(path, e) from e

    def properties(self, device: str) -> Mapping[str, str]:
        try:
            import pyudev  # 4 MiB and 10 ms that most configurations don't need
        except ImportError as e:
            raise HostError(f"udev's properties can't be read: {e}") from e
        try:
            # As bytes: pyudev can't encode a path that is no UTF-8, and an interface may be named so.
            known = pyudev.Devices.from_sys_path(pyudev.Context(), os.fsencode(os.path.realpath(device)))
            found = known.properties
            # Before its rules ran, and where no udevd runs, a property is not missing but unknown. Of a device without
            # a node and an interface number (PCI) udevd keeps no entry if it found nothing to say.
            if not known.is_initialized and ("MAJOR" in found or "IFINDEX" in found):
                raise HostError(f"udev has not looked at {device} (yet)")
            return {printable(name): _property(found, name) for name in found}
        except pyudev.DeviceNotFoundError as e:
            raise HostError(f"udev does not know {device}", errno.ENOENT) from e
        except (OSError, UnicodeDecodeError) as e:
            raise HostError(f"udev's properties of {device} could not be read: {e}") from e

    def hardware_names(self, modalias: str) -> Mapping[str, str]:
        from capacityd.host.hwdb import look_up

        return look_up(modalias)

    def link_speeds(self, interface: str) -> Sequence[int]:
        from capacityd.host.linkmodes import speeds_of, supported_modes

        return speeds_of(supported_modes(interface))

    def link_kind(self, interface: str) -> str:
        from capacityd.host.routes import link_kind

        return link_kind(interface)

    def default_interfaces(self) -> Sequence[str]:
        from capacityd.host.routes import default_interfaces

        return default_interfaces()

    def addresses(self) -> Sequence[Address]:
        from capacityd.host.addresses import addresses

        return addresses()

    def filesystem_size(self, point: str, mounts: Collection[str]) -> int:
        from capacityd.host.mounts import measure

        return measure(point, mounts)

    def lines(self, path: str) -> Sequence[str]:
        raw = _read(path, _MOST_LINES) or b""
        return [printable(line) for line in raw.replace(b"\0", b"\n").replace(b"\t", b" ").split(b"\n") if line]

    def content(self, path: str, most: int) -> Content:
        try:
            # O_NONBLOCK, because opening a FIFO waits for a writer.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode):
                    raise HostError(f"{path} is not a regular file")
                raw = _take(fd, path, most)
            finally:
                os.close(fd)
        except OSError as e:
            raise _unreadable(path, e) from e
        return Content(printable(raw.strip()), time.time() - status.st_mtime)

    def run(self, command: Sequence[str], timeout: float) -> Output:
        from capacityd.host.program import run

        return run(command, timeout)

    def changed(self, path: str) -> float | None:
        try:
            return os.stat(path).st_ctime
        except OSError as e:
            if e.errno in _GONE:
                return None
            raise _unreadable(path, e) from e

    def arch(self) -> str:
        return os.uname().machine

    def hostname(self) -> str:
        return printable(os.uname().nodename)


def _read(path: str, most: int) -> bytes | None:
    """What a file holds, None if there is no such file. Raises HostError if it can't be read, or holds more."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return _take(fd, path, most)
        finally:
            os.close(fd)
    except OSError as e:
        if e.errno in _NO_TEXT:
            return None
        raise _unreadable(path, e) from e


def _take(fd: int, path: str, most: int) -> bytes:
    found = os.read(fd, most + 1)
    while found and len(found) <= most and (more := os.read(fd, most + 1 - len(found))):
        found += more
    if len(found) > most:
        raise HostError(f"{path} holds more than {most} bytes")
    return found


def _unreadable(path: str, e: OSError) -> HostError:
    if e.errno == errno.ENOENT:
        return HostError(f"{path} does not exist", e.errno)
    hint = " (run as root?)" if e.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0 else ""
    return HostError(f"{path} could not be read: {os.strerror(e.errno or 0)}{hint}", e.errno)


def _property(found: Mapping[str, str], name: str) -> str:
    try:
        return printable(found[name])
    except UnicodeDecodeError as e:
        # pyudev decodes strictly, and what a device says of itself need not be UTF-8; the error carries the bytes.
        return printable(bytes(e.object))

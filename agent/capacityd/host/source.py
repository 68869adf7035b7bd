"""A machine as it can be recorded, and which of its files may be read for that.

Left out are attributes that block, that make a driver talk to the hardware or change it, that hold no text, that hold
passwords, and those that change by themselves, so that two recordings of an unchanged machine are equal.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from capacityd.errors import HostError
from capacityd.host import Host
from capacityd.host.live import LiveHost
from capacityd.host.recorded import RecordedHost

_SLOW = "config rom vpd pcrs pubek temp"  # asks the device, firmware, or a chip on a slow bus
_NO_TEXT = "bos_descriptors descriptors edid eeprom inquiry nvmem report_descriptor"
_KEYS = (
    "config_info dhchap_ctrl_secret dhchap_secret key password password_in username username_in"  # rbd, NVMe, iSCSI …
)
_COUNTS = """carrier_changes carrier_down_count carrier_up_count connected_duration date inflight iodone_cnt ioerr_cnt
    iorequest_cnt iotmo_cnt meminfo numastat pid since_epoch stat time timeleft urbnum vmstat wakealarm"""
_FILES = frozenset(f"{_SLOW} {_NO_TEXT} {_KEYS} {_COUNTS}".split())
_FILES_BEGIN = ("dump", "fw_log", "in_", "pcr-", "resource", "trace", "vpd_")
_FILES_END = ("_average", "_dump", "_input", "_registers", "_regs", "_snapshot", "_trace")
_FOLDERS_OF_CPUS = "access0 access1 cache cpufreq cpuidle hotplug hugepages microcode topology vulnerabilities"
_FOLDERS_OF_COUNTS = """aer_stats byte_queue_limits counters hw_counters power statistics stats_day stats_five_minute
    stats_hour stats_total thermal_throttle wakeup"""
_FOLDERS_OF_MUCH = "breakpoint devcoredump events firmware_attributes hwmon mq msi_irqs nvmem ppi queues trace"
_FOLDERS = frozenset(f"{_FOLDERS_OF_CPUS} {_FOLDERS_OF_COUNTS} {_FOLDERS_OF_MUCH}".split())
_NO_DEVICES = (
    *(f"/sys/devices/system/{name}" for name in ("clockevents", "clocksource", "edac", "machinecheck", "memory")),
    *(f"/sys/devices/virtual/{name}" for name in ("bdi", "cpuid", "msr", "powercap", "thermal", "vc", "workqueue")),
)


class Source(Host, Protocol):
    """A machine that can be recorded. redacted: names of people and things in it are replaced already."""

    redacted: bool

    def entries(self, folder: str) -> Sequence[tuple[str, str]]:
        """What a folder holds, sorted: names with "file", "folder", "link", or "" for what nobody may read.

        Raises HostError.
        """

    def raw(self, path: str, most: int) -> str:
        """A file's content, bytes that are no UTF-8 as surrogates. Raises HostError, with EFBIG if it is longer."""

    def target(self, path: str) -> str:
        """What a link holds. Raises HostError."""


class LiveSource(LiveHost):
    """This machine, to be recorded."""

    redacted = False

    def entries(self, folder: str) -> Sequence[tuple[str, str]]:
        try:
            with os.scandir(folder) as found:
                return sorted((e.name, _sort(e)) for e in found)
        except OSError as e:
            raise _told(e) from e

    def raw(self, path: str, most: int) -> str:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise OSError(errno.EINVAL, "")
                text = b""
                while len(text) <= most and (more := os.read(fd, most + 1 - len(text))):
                    text += more
            finally:
                os.close(fd)
            if len(text) > most:
                raise OSError(errno.EFBIG, "")
        except OSError as e:
            raise _told(e) from e
        return text.decode("utf-8", "surrogateescape")

    def target(self, path: str) -> str:
        try:
            return os.readlink(path)
        except OSError as e:
            raise _told(e) from e


class RecordedSource(RecordedHost):
    """A recorded machine, to be recorded again."""

    def __init__(self, recording: Mapping[str, Any]) -> None:
        super().__init__(recording)
        self.redacted = bool(recording.get("redacted", False))

    def entries(self, folder: str) -> Sequence[tuple[str, str]]:
        real = self._known(folder)
        if real not in self._folders:
            raise HostError(f"{folder} does not exist", errno.ENOENT)
        return sorted((name, self._sort(f"{real}/{name}")) for name in self._folders[real])

    def raw(self, path: str, most: int) -> str:
        found = self._files.get(self._known(path))
        if found is None:
            raise HostError(f"{path} does not exist", errno.ENOENT)
        if len(found.encode("utf-8", "surrogateescape")) > most:
            raise HostError(f"{path} holds more than {most} bytes", errno.EFBIG)
        return found

    def target(self, path: str) -> str:
        return self._links[path]

    def _sort(self, path: str) -> str:
        if path in self._errors:
            return ""
        if path in self._links:
            return "link"
        return "folder" if path in self._folders else "file" if path in self._files else ""


def _sort(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir():
        return "folder"
    readable = entry.is_file() and entry.stat(follow_symlinks=False).st_mode & 0o444
    return "file" if readable else ""


def _told(e: OSError) -> HostError:
    return HostError(os.strerror(e.errno or errno.EIO), e.errno)


def may_be_read(path: str) -> bool:
    """Whether a file of /sys is an attribute of a device that is safe to read.

    A bus and a class have switches of their own (to read zram-control's hot_add makes a device), but bonding_masters.
    A "key" is Thunderbolt's secret, but among an input device's capabilities, where it is what can be pressed.
    """
    name = path.rpartition("/")[2]
    if path.startswith(("/sys/bus/", "/sys/class/")) and path.count("/") == 4:
        return name == "bonding_masters"
    if path.endswith("/capabilities/key"):
        return True
    return not (name in _FILES or name.startswith(_FILES_BEGIN) or name.endswith(_FILES_END))


def may_be_walked(path: str) -> bool:
    """Whether a folder of /sys holds what tells devices apart."""
    return path.rpartition("/")[2] not in _FOLDERS and path not in _NO_DEVICES

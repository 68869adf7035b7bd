"""The whole disks in /sys. Each is listed once, even if several paths lead to it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from capacityd.model.errors import HostError
from capacityd.model.host import Host, read_optional_attr, resolve_link

BLOCK = "/sys/block"

_VIRTUAL = "/sys/devices/virtual/block/"  # where the kernel puts block devices without hardware
_SOFTWARE = ("dm-", "loop", "md", "ram", "zram")
"""Prefixes of names of block devices without hardware, which are never disks. Such names are reliable in any /sys."""
_NOT_DISKS = ("fd", "mtdblock", "rbd", "sr", "ubiblock")
"""Prefixes of names of drives and network disks whose paths look like those of disks."""
_NVME_PATH = re.compile("nvme[0-9]+c[0-9]+n[0-9]+")
"""One of several paths to an NVMe namespace: nvme6c6n1 beside nvme6n1 (nvme_alloc_ns in drivers/nvme/host/core.c)."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A whole disk."""

    paths: tuple[str, ...]
    """The kernel's names of the disk's paths; at least one."""
    doubt: str
    """Why the disk may be another path to an earlier disk; "" if it is certainly separate."""
    incomplete_because: str
    """Why the disk may have more paths; "" if it certainly has not."""

    @property
    def name(self) -> str:
        """The name of the disk's first path."""
        return self.paths[0]


@dataclass(slots=True)
class _Paths:
    """The paths to a disk, during enumeration."""

    names: list[str]
    doubt: str
    may_have_others: bool
    """Whether disks in doubt may be other paths to this disk."""


def whole_disks(host: Host) -> list[Disk]:
    """All disks, sorted by name. Raises HostError if they can't be enumerated.

    If it is unknown whether a disk is another path to an earlier disk, the disk is in doubt. So are later disks that
    may be other paths to it: they might be counted twice.
    """
    disks: list[_Paths] = []
    by_identity: dict[str, _Paths] = {}
    doubt = ""
    for name in host.listdir(BLOCK):
        if _is_excluded(name):
            continue
        try:
            real = host.resolve(f"{BLOCK}/{name}")  # None: the disk has disappeared, and its values with it
            if real is not None and (real.startswith(_VIRTUAL) or _is_hidden(host, name)):
                continue
            identities = _identities(host, name, real) if real else []
        except HostError as e:
            reason = f"it is unknown whether it is another path to a disk: {e}"
            disks.append(_Paths([name], reason, may_have_others=True))
            doubt = doubt or reason
            continue
        disk = next((by_identity[i] for i in identities if i in by_identity), None)
        if disk is None:
            disk = _Paths([], doubt if identities else "", may_have_others=bool(identities))
            disks.append(disk)
        disk.names.append(name)
        by_identity.update({identity: disk for identity in identities if identity not in by_identity})
    return [Disk(tuple(disk.names), disk.doubt, doubt if disk.may_have_others else "") for disk in disks]


def world_wide_id(host: Host, path: str) -> str | None:
    """The world-wide id of a disk: of the namespace for NVMe, of the device for SCSI. Raises HostError."""
    return read_optional_attr(host, f"{path}/wwid") or read_optional_attr(host, f"{device_of(host, path)}/wwid") or None


def device_of(host: Host, path: str) -> str:
    """The path of the device that a disk belongs to. Raises HostError if its link is dangling."""
    resolve_link(host, f"{path}/device")
    return f"{path}/device"


def _is_excluded(name: str) -> bool:
    """Whether the name shows that this is not a whole disk. mmcblk0boot0 is a part of the memory card mmcblk0."""
    part_of_card = name.startswith("mmcblk") and not name[6:].isdigit()
    return name.startswith((*_SOFTWARE, *_NOT_DISKS)) or part_of_card or _NVME_PATH.fullmatch(name) is not None


def _is_hidden(host: Host, name: str) -> bool:
    """Whether the kernel hides the disk, as it does with all but one of several paths."""
    return host.text(f"{BLOCK}/{name}/hidden") == "1"


def _identities(host: Host, name: str, real: str) -> list[str]:
    """Values that all paths to one disk share: its world-wide id, and the multipath device above it.

    Cheap disks and USB enclosures of one model may share the same id, so ids identify a disk only on buses that support
    several paths. For NVMe, the serial number must also be equal. For an NVMe disk without an id, the kernel generates
    one that begins with "nvme.". This module ignores generated ids, because clouds give all controllers the same serial
    number.
    """
    wwid = None if "/usb" in real or "/ata" in real else world_wide_id(host, f"{BLOCK}/{name}")
    if wwid and name.startswith("nvme"):
        wwid = None if wwid.startswith("nvme.") else f"{wwid} {host.text(f'{BLOCK}/{name}/device/serial')}"
    holders = [f"{BLOCK}/{name}/holders/{holder}" for holder in host.listdir(f"{BLOCK}/{name}/holders")]
    uuids = [host.text(f"{holder}/dm/uuid") for holder in holders if resolve_link(host, holder)]
    return [*filter(None, [wwid]), *(uuid for uuid in uuids if uuid and uuid.startswith("mpath-"))]

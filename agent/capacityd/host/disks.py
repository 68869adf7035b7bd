"""The whole disks in /sys. Each is listed once, even if several paths lead to it.

Two paths lead to one disk if multipathd says so, or if their world-wide ids and serial numbers are equal, and neither
size nor model differs. The world-wide id alone does not suffice, because different disks may have the same id:

- naa. and eui.: SSDs and enclosures with a placeholder (naa.5000000000000001)
- t10. and naa.6000000: software targets with the same name for the first disk of every server (tgt)
- eui. and uuid.: NVMe disks (NVME_QUIRK_BOGUS_NID in drivers/nvme/host/nvme.h)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from capacityd.host.block_devices import is_no_disk_name, is_virtual
from capacityd.model.errors import HostError
from capacityd.model.host import Host, device_of, read_int, read_optional_attr, resolve_link

BLOCK = "/sys/block"

_SINGLE_PATH = re.compile("/usb|/ata")
"""Parts of a disk's folder in /sys which show that no second path can lead to the disk. Ids of such disks are not
compared, because USB enclosures and cheap SATA disks of one model often have the same id."""
_SCSI_TARGET_FOLDER = re.compile("^.*?/(host[0-9]+(?=/target)|target[0-9:]+(?=/))")
"""The beginning of a disk's folder in /sys, up to the folder of its SCSI target: /…/host0/rport-0:0-1/target0:0:1. If
the target is directly in the folder of its SCSI host (/…/host1/target1:0:0), the beginning ends with /host1. Such a
host has no transport such as SAS, FC or iSCSI: it is a RAID controller or a hypervisor, which shows each disk once."""
_GENERATED_PREFIX = "nvme."
"""The start of the id that the kernel makes of the serial number of an NVMe disk without an id (wwid_show in
drivers/nvme/host/sysfs.c). Different disks may share this id: all controllers of a cloud have one serial number."""
_PREFIXES_WITHOUT_COMPANY = ("t10.", "naa.6000000")
"""The starts of ids without a registered company (T10 vendor ID based, and NAA 6 with the company 000000, in SCSI
Primary Commands). A software target (tgt) may give the first disk of every server the same id and serial number."""
_MULTIPATH_PREFIX = "mpath-"
"""The start of a device-mapper UUID that multipathd assigned (multipath-tools, libmultipath/devmapper.c). Paths with
the same UUID lead to one disk, because the system already uses these paths as one disk."""
_SCSI_SERIALS = ("SCSI_IDENT_SERIAL", "ID_SCSI_SERIAL")
"""udev's properties with the serial number of a SCSI disk (VPD page 0x80), from sg3-utils and from scsi_id."""
_SHORT_SERIAL = "ID_SERIAL_SHORT"
"""udev's property with the serial number of a disk. For a SCSI disk, the property repeats the world-wide id instead."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A whole disk."""

    paths: list[str]
    """The kernel's names of the disk's paths; at least one."""
    uncertain_because: str = ""
    """Why the disk may be another path to an earlier disk; "" if it is certainly a separate disk."""

    @property
    def name(self) -> str:
        """The name of the disk's first path."""
        return self.paths[0]


def whole_disks(host: Host) -> list[Disk]:
    """All disks, sorted by name. Raises HostError if they can't be enumerated.

    A disk whose ids can't be read is uncertain, because it may be another path to any other disk.
    """
    disks: list[Disk] = []
    by_id: defaultdict[str, list[Disk]] = defaultdict(list)
    facts_of = cache(partial(_facts, host))  # cache() avoids reading a path again for each path with the same id
    for name in host.listdir(BLOCK):
        if is_no_disk_name(name):
            continue
        disk: Disk | None = None
        ids: list[str] = []
        uncertain_because = ""
        try:
            real = host.resolve(f"{BLOCK}/{name}")
            if real is not None:  # a disk that has just been removed stays in the list, with unknown values
                if _is_no_disk(host, name, real):
                    continue
                ids = _ids(host, name, real)
                disk = _earlier_disk(name, ids, by_id, facts_of)
        except HostError as e:
            uncertain_because = f"it is unknown whether it is another path to a disk: {e}"
        if disk is None:
            disk = Disk([], uncertain_because)
            disks.append(disk)
        disk.paths.append(name)
        for id_ in ids:
            if disk not in by_id[id_]:
                by_id[id_].append(disk)
    return disks


def world_wide_id(host: Host, path: str) -> str | None:
    """A disk's world-wide id, of the namespace (NVMe) or the device (SCSI); None if it has none. Raises HostError."""
    if id_of_namespace := read_optional_attr(host, f"{path}/wwid"):
        return id_of_namespace
    id_of_device = read_optional_attr(host, f"{device_of(host, path)}/wwid")
    return id_of_device or None


def nvme_transport(host: Host, real: str) -> str | None:
    """The transport of an NVMe disk in the kernel's words: pcie, apple-nvme, tcp, rdma, fc or loop.

    None if no controller reports a transport. With multipath, the disk's folder is in the folder of its NVMe subsystem,
    which also contains the controllers. real: the disk's path in /sys without links.
    """
    parent = real.rpartition("/")[0]
    controllers = [f"{parent}/{name}" for name in host.listdir(parent) if name.startswith("nvme")]
    for folder in (parent, *controllers):
        if resolve_link(host, folder) is None:  # the controller has disappeared; a dangling link raises HostError
            continue
        if transport := host.text(f"{folder}/transport"):
            return transport
    return None


def _is_no_disk(host: Host, name: str, real: str) -> bool:
    """Whether a block device with a disk's name is not a disk. real: the device's path in /sys without links."""
    if is_virtual(name, real):
        return True
    if host.text(f"{BLOCK}/{name}/hidden") == "1":  # a single path to an NVMe namespace
        return True
    if name.startswith("nvme"):
        return nvme_transport(host, real) == "loop"  # a disk or file of this machine (drivers/nvme/target/loop.c)
    if name.startswith("xvd"):
        return host.property(f"{BLOCK}/{name}", "ID_CDROM") == "1"  # Xen's CD drive
    return False


def _ids(host: Host, name: str, real: str) -> list[str]:
    """The ids that all paths to one disk share: the UUID of multipathd, and the world-wide id.

    real: the disk's path in /sys without links.
    """
    ids = []
    for holder in host.listdir(f"{BLOCK}/{name}/holders"):
        path = f"{BLOCK}/{name}/holders/{holder}"
        if resolve_link(host, path) is None:  # the holder has disappeared
            continue
        uuid = host.text(f"{path}/dm/uuid") or ""
        if uuid.startswith(_MULTIPATH_PREFIX):
            ids.append(uuid)
    if _SINGLE_PATH.search(real):
        return ids
    wwid = world_wide_id(host, f"{BLOCK}/{name}")
    if wwid and not wwid.startswith(_GENERATED_PREFIX):
        ids.append(wwid)
    return ids


def _earlier_disk(
    name: str, ids: Sequence[str], by_id: Mapping[str, Sequence[Disk]], facts_of: Callable[[str, str], _Facts]
) -> Disk | None:
    """The earlier disk to which this path leads; None if it leads to another disk. Raises HostError if that is unknown.

    name, ids: the path's name and ids. by_id: id -> the disks found earlier. facts_of: _facts() with a cache.
    """
    first_error: HostError | None = None
    for id_ in ids:
        for disk in by_id.get(id_, ()):
            try:
                if _leads_to(disk, name, id_, facts_of):
                    return disk
            except HostError as e:
                first_error = first_error or e
    if first_error:
        raise first_error
    return None


def _leads_to(disk: Disk, name: str, id_: str, facts_of: Callable[[str, str], _Facts]) -> bool:
    """Whether the path with this name leads to the disk. id_: the id that both have. Raises HostError if unknown."""
    if id_.startswith(_MULTIPATH_PREFIX):
        return True
    own_facts = facts_of(name, id_)
    if any(own_facts.show_another_disk_than(facts_of(path, id_)) for path in disk.paths):
        return False
    have_equal_serials = own_facts.serial != "" and own_facts.serial == facts_of(disk.name, id_).serial
    if have_equal_serials and not id_.startswith(_PREFIXES_WITHOUT_COMPANY):
        return True
    raise HostError(f"{name} and {disk.name} have the same id {id_}, and nothing else shows whether they are one disk")


@dataclass(frozen=True, slots=True)
class _Facts:
    """What one path to a disk reports. All paths to one disk report the same serial number, model and size.

    A value is "" or 0 if the path does not report it. A path on standby (ALUA) reports no size.
    """

    serial: str
    model: str
    sectors: int
    target: str
    """The folder in /sys that _SCSI_TARGET_FOLDER matches. It shows each disk once, so two paths in the same folder
    lead to different disks. They may still have the same id: UFS gives all disks of a chip the same id."""

    def show_another_disk_than(self, other: _Facts) -> bool:
        """Whether these facts and the other path's show that the two paths lead to different disks."""
        if self.target and self.target == other.target:
            return True
        if self.serial and other.serial and self.serial != other.serial:
            return True
        if self.model and other.model and self.model != other.model:
            return True
        sizes_are_known = self.sectors > 0 and other.sectors > 0
        return sizes_are_known and self.sectors != other.sectors


def _facts(host: Host, name: str, wwid: str) -> _Facts:
    """The facts of a path. wwid: the path's world-wide id. Raises HostError."""
    path = f"{BLOCK}/{name}"
    device = device_of(host, path)
    serial = host.text(f"{path}/serial") or host.text(f"{device}/serial") or host.property(path, *_SCSI_SERIALS)
    target = _SCSI_TARGET_FOLDER.match(host.resolve(path) or "")
    return _Facts(
        serial=serial or _independent_serial(host, path, wwid=wwid),
        model=host.text(f"{device}/model") or "",
        sectors=read_int(host, f"{path}/size") or 0,
        target=target[0] if target else "",
    )


def _independent_serial(host: Host, path: str, wwid: str) -> str:
    """The value of _SHORT_SERIAL; "" if udev has no value, or if the value only repeats a part of the world-wide id."""
    serial = host.property(path, _SHORT_SERIAL) or ""
    repeats_id = _letters_and_digits(serial) in _letters_and_digits(wwid)
    return "" if repeats_id else serial


def _letters_and_digits(text: str) -> str:
    """The text in lower case without separators, because udev and the kernel write the same id differently."""
    return "".join(filter(str.isalnum, text.lower()))


def serial_number(host: Host, path: str) -> str | None:
    """The serial number of a disk; None if neither the kernel nor udev knows it. Raises HostError.

    The serial number is in the disk's folder (virtio), in the device's folder (NVMe, memory cards), or in udev's
    database (SCSI, USB). lsblk reads udev's properties in the same order.
    """
    for folder in (path, device_of(host, path)):
        serial = host.text(f"{folder}/serial")
        if serial is not None:
            return serial
    return host.property(path, *_SCSI_SERIALS, _SHORT_SERIAL)

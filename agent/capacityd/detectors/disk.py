"""disk: whole disks. Each disk counts once, even if several paths lead to it. Partitions and devices made of disks
(md, dm, loop) do not count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import cast

from capacityd.host.disks import BLOCK, Disk, nvme_transport, serial_number, whole_disks, world_wide_id
from capacityd.host.system_disks import system_disks
from capacityd.model.errors import HostError
from capacityd.model.host import Host, SystemDevices, device_of, link_name, read_int, resolve_link
from capacityd.model.quoting import length_text, quoted
from capacityd.model.reasons import KernelEvents
from capacityd.schema.device import Device, DeviceDetector, DeviceKey, is_system, read_name
from capacityd.schema.matchers import Value
from capacityd.schema.mistakes import PATH_INSTEAD_OF_NAME, SEVERAL_NAMES, WWN_IN_OTHER_FORMAT
from capacityd.schema.value_types import Amount, Choice, Flag, Text

_SECTOR_BYTES = 512
"""The unit of the sizes of disks in /sys, even if a disk has another block size."""
_TRANSPORTS = (
    ("/usb", "usb"),
    ("/session", "iscsi"),
    ("/rport-", "fc"),
    ("/end_device-", "sas"),
    ("/ata", "sata"),
    ("/nvme", "nvme"),
    ("/ndbus", "nvdimm"),
)
"""Part of a disk's path in /sys, and the transport that this part shows. The first match wins: a SATA disk behind USB
has the transport "usb"."""
_TYPES = {"0": "ssd", "1": "hdd"}
"""Content of the disk's file queue/rotational in /sys -> type."""
_LOCAL_NVME = ("pcie", "apple-nvme")
"""Transports of NVMe inside the machine: names of nvme_ctrl_ops in the kernel's drivers/nvme/host/{pci,apple}.c."""


def find(host: Host) -> Iterator[Device]:
    """Yields every disk. A disk with several paths is represented by the device of its first path."""
    disks = whole_disks(host)
    read_system_disks = cache(partial(_system_disks, host, disks))  # reads the mounts only once for all disks
    for disk in disks:
        yield Device(
            path=f"{BLOCK}/{disk.name}",
            name=disk.name.replace("!", "/"),  # the kernel writes a "/" in a name as "!" in /sys
            read_system_devices=read_system_disks,
            detector_data=disk,
            uncertain_because=disk.uncertain_because,
        )


def _system_disks(host: Host, disks: Iterable[Disk]) -> SystemDevices:
    """The disks that the operating system uses through at least one of their paths."""
    system_paths = system_disks(host)
    names = set()
    incomplete_because = system_paths.incomplete_because
    for disk in disks:
        if system_paths.names.intersection(disk.paths):
            names.add(disk.name)
            # If this disk may be another path to an earlier disk, the system may depend on that earlier disk, too.
            incomplete_because = incomplete_because or disk.uncertain_because
    return SystemDevices(frozenset(names), incomplete_because)


def _wwn(host: Host, device: Device) -> Value:
    """The world-wide name, in the format of lsblk and udev."""
    wwid = world_wide_id(host, device.path)
    if wwid is None:  # the kernel does not report it, but udev may know it
        return host.property(device.path, "ID_WWN_WITH_EXTENSION", "ID_WWN")  # ID_WWN ends after 64 bits
    if wwid.startswith("naa."):
        return f"0x{wwid.removeprefix('naa.')}"
    return wwid


def _model(host: Host, device: Device) -> Value:
    """The model, or the name of a memory card (SD, MMC)."""
    folder = device_of(host, device.path)
    return host.text(f"{folder}/model") or host.text(f"{folder}/name")


def _vendor(host: Host, device: Device) -> Value:
    vendor = host.text(f"{device_of(host, device.path)}/vendor")
    is_pci_id = vendor is not None and vendor.startswith("0x")  # the vendor of a virtio disk is an id, not a name
    return None if is_pci_id else vendor


def _type(host: Host, device: Device) -> Value:
    """nvme, pmem, ssd or hdd. Raises HostError if the type is unknown."""
    if device.name.startswith("nvme"):
        return "nvme"
    if device.name.startswith("pmem"):  # a name that the kernel's drivers/nvdimm/pmem.c or btt.c sets
        return "pmem"
    path = f"{device.path}/queue/rotational"
    rotational = host.text(path)
    if rotational is None:
        raise HostError(f"{path} does not exist")
    if rotational not in _TYPES:
        raise HostError(
            f"{path} is neither 0 nor 1 ({length_text(rotational)})", detail=f"it contains {quoted(rotational)}"
        )
    return _TYPES[rotational]


def _transport(host: Host, device: Device) -> Value:
    """How the disk is attached, according to its path in /sys. If the path shows no transport, the name of the disk's
    bus."""
    real_path = host.resolve(device.path) or ""  # "": the disk has disappeared
    transports = [transport for part, transport in _TRANSPORTS if part in real_path]
    if not transports:
        return link_name(host, f"{device_of(host, device.path)}/subsystem")
    transport = transports[0]
    if transport == "nvme":
        nvme_type = nvme_transport(host, real_path)
        is_local = nvme_type is None or nvme_type in _LOCAL_NVME  # None: unknown, because no controller reports it
        return "nvme" if is_local else f"nvme-{nvme_type}"
    if transport == "sata":  # the path of a parallel ATA disk also contains "/ata"
        return "ata" if _is_parallel(host, real_path) else "sata"
    return transport


def _is_parallel(host: Host, real_path: str) -> bool:
    """Whether an ATA disk uses parallel ATA (IDE). The driver of its SCSI host shows it, as in lsblk.

    Raises HostError if the link to the SCSI host is dangling.
    """
    scsi_hosts = [part for part in real_path.split("/") if part.startswith("host")]
    if not scsi_hosts:
        return False
    folder = f"/sys/class/scsi_host/{scsi_hosts[0]}"
    driver = host.text(f"{folder}/proc_name")
    if driver is None:
        resolve_link(host, folder)  # only to raise HostError if the link is dangling
        return False
    return driver == "ata_piix" or driver.startswith("pata")


def _removable(host: Host, device: Device) -> Value:
    return host.text(f"{device.path}/removable") == "1"


def _size(host: Host, device: Device) -> Value:
    """The size in bytes, from the first path that reports one. A path on standby (ALUA) may report none.

    None if each path reports no size or 0, for example an empty card reader. No condition on the size matches None.
    """
    disk = cast(Disk, device.detector_data)
    for name in disk.paths:
        sectors = read_int(host, f"{BLOCK}/{name}/size")
        if sectors:
            return sectors * _SECTOR_BYTES
    return None


DETECTOR = DeviceDetector(
    name="disk",
    about="whole disks; no partitions, no devices made of disks (md, dm, loop), no drives without a medium",
    find=find,
    keys={
        "name": DeviceKey(
            Text(rejects=(PATH_INSTEAD_OF_NAME, SEVERAL_NAMES)),
            read_name,
            "the kernel's name, such as sda; may change at a reboot",
        ),
        "model": DeviceKey(Text(), _model, "model; for SATA disks its first 16 characters"),
        "vendor": DeviceKey(Text(), _vendor, "vendor of SCSI disks; for SATA disks it is always ATA"),
        "serial": DeviceKey(
            Text(),
            lambda host, device: serial_number(host, device.path),
            "serial number; many virtual disks have none, and those of virtio end after 20 characters",
        ),
        "wwn": DeviceKey(
            Text(ignore_case=True, rejects=(WWN_IN_OTHER_FORMAT,)),
            _wwn,
            "world-wide name, such as 0x5000c500a1b2c3d4 or eui.0025385b71b00c1d",
        ),
        "type": DeviceKey(
            Choice(("nvme", "ssd", "hdd", "pmem")),
            _type,
            "nvme, ssd, hdd or pmem (a namespace of an NVDIMM); virtual disks, USB sticks and RAID often report hdd",
        ),
        "transport": DeviceKey(
            Text(),
            _transport,
            "how the disk is attached: nvme, nvme-tcp, sata, ata (IDE), sas, usb, iscsi, fc, mmc, virtio, nvdimm, "
            "scsi (other controllers), …",
        ),
        "removable": DeviceKey(Flag(), _removable, "whether the medium is removable"),
        "system": DeviceKey(
            Flag(),
            is_system,
            "whether the disk holds the machine's own file systems, data of the kubelet or of containers, or swap",
        ),
        "size": DeviceKey(Amount("size"), _size, "the size"),
    },
    identifying_keys=("wwn", "serial", "name"),
    model_keys=("type", "model"),
    defaults={"size": ">0B"},  # a drive without a medium has no size
    udev_subsystems=("block",),
    system_events=frozenset({KernelEvents.MOUNTS, KernelEvents.SWAPS}),
    vendor_name_key="vendor",
    model_name_key="model",
    suggestion_filter={"system": False},
)

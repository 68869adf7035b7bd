"""disk: whole disks. Each disk counts once, even if several paths lead to it; partitions, and devices made of disks,
do not count."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from capacityd.host.disks import BLOCK, device_of, serial_number, whole_disks, world_wide_id
from capacityd.host.system_disks import NODE_FOLDERS, OS_FOLDERS, OS_TREES, system_disks
from capacityd.model.config import Resource
from capacityd.model.device import Device, DeviceDetector, Key, is_system
from capacityd.model.errors import HostError
from capacityd.model.event_filters import NO_EVENTS, EventFilters, MountFilter
from capacityd.model.host import Host, SystemDevices, link_name, read_int, resolve_link
from capacityd.model.matchers import Value
from capacityd.model.mistakes import OTHER_WWN, PATH, SEVERAL_NAMES
from capacityd.model.private import extent, quoted
from capacityd.model.reasons import KernelEvents
from capacityd.model.value_types import Amount, Choice, Flag, Text

_SECTOR = 512  # bytes; /sys uses this unit regardless of the disk's block size
_TRANSPORTS = (  # part of the path in /sys -> transport; the first match wins: a SATA disk behind USB is "usb"
    ("/usb", "usb"),
    ("/session", "iscsi"),
    ("/rport-", "fc"),
    ("/end_device-", "sas"),
    ("/ata", "sata"),
    ("/nvme", "nvme"),
    ("/ndbus", "nvdimm"),
)
_TYPES = {"0": "ssd", "1": "hdd"}
_LOCAL_NVME = (None, "pcie", "apple-nvme")
"""Transports of NVMe inside the machine: names of nvme_ctrl_ops in the kernel's drivers/nvme/host/{pci,apple}.c."""


def find(host: Host) -> Iterator[Device]:
    """Yields every disk. A disk with several paths is represented by the device of its first path."""
    disks = whole_disks(host)

    @cache
    def system() -> SystemDevices:
        """The disks with at least one path that the operating system depends on."""
        on_paths = system_disks(host)
        ours = [disk for disk in disks if not on_paths.names.isdisjoint(disk.paths)]
        doubt = next((disk.doubt for disk in sorted(ours, key=lambda disk: disk.name) if disk.doubt), "")
        return SystemDevices(frozenset(disk.name for disk in ours), on_paths.incomplete_because or doubt)

    for disk in disks:
        cached_values: dict[str, Value] = {"paths": disk.paths, "incomplete_because": disk.incomplete_because}
        yield Device(f"{BLOCK}/{disk.name}", disk.name.replace("!", "/"), system, cached_values, disk.doubt)


def _wwn(host: Host, device: Device) -> Value:
    """The world-wide name, in the format of lsblk and udev."""
    wwid = world_wide_id(host, device.path)
    if wwid is None:
        return host.property(device.path, "ID_WWN")
    return f"0x{wwid[4:]}" if wwid.startswith("naa.") else wwid


def _serial(host: Host, device: Device) -> Value:
    return serial_number(host, device.path)


def _model(host: Host, device: Device) -> Value:
    """The model; for memory cards, their name."""
    folder = device_of(host, device.path)
    return host.text(f"{folder}/model") or host.text(f"{folder}/name") or None


def _vendor(host: Host, device: Device) -> Value:
    vendor = host.text(f"{device_of(host, device.path)}/vendor")
    return None if vendor and vendor.startswith("0x") else vendor  # for virtio, this is a PCI id


def _type(host: Host, device: Device) -> Value:
    if device.name.startswith("nvme"):
        return "nvme"
    if device.name.startswith("pmem"):  # the names of drivers/nvdimm/pmem.c and btt.c
        return "pmem"
    path = f"{device.path}/queue/rotational"
    rotational = host.text(path)
    if rotational not in _TYPES:
        if rotational is None:
            raise HostError(f"{path} does not exist")
        raise HostError(f"{path} is neither 0 nor 1 ({extent(rotational)})", detail=f"it contains {quoted(rotational)}")
    return _TYPES[rotational]


def _transport(host: Host, device: Device) -> Value:
    """How the disk is attached, from its path in /sys; otherwise the name of its bus."""
    real = host.resolve(device.path) or ""
    transport = next((transport for part, transport in _TRANSPORTS if part in real), None)
    if transport == "nvme":
        fabric = _fabric(host, real)
        return "nvme" if fabric in _LOCAL_NVME else f"nvme-{fabric}"
    if transport == "sata":
        return _ata(host, real)
    return transport or link_name(host, f"{device_of(host, device.path)}/subsystem")


def _ata(host: Host, real: str) -> str:
    """Serial or parallel ATA (IDE), from the driver, as lsblk does. Raises HostError if its folder's link is
    dangling."""
    number = next((part for part in real.split("/") if part.startswith("host")), "host")
    folder = f"/sys/class/scsi_host/{number}"
    driver = host.text(f"{folder}/proc_name")
    if driver is None:
        resolve_link(host, folder)  # raises HostError if the link is dangling: then the transport is unknown
        return "sata"
    return "ata" if driver == "ata_piix" or driver.startswith("pata") else "sata"


def _fabric(host: Host, real: str) -> str | None:
    """The NVMe transport: pcie, apple-nvme, tcp, rdma or fc.

    With multipath, the transport is an attribute of the subsystem's controllers.
    """
    parent = real.rpartition("/")[0]
    for controller in [parent, *(f"{parent}/{name}" for name in host.listdir(parent) if name.startswith("nvme"))]:
        if transport := resolve_link(host, controller) and host.text(f"{controller}/transport"):
            return transport
    return None


def _removable(host: Host, device: Device) -> Value:
    removable = host.text(f"{device.path}/removable")
    return None if removable is None else removable == "1"  # None: the disk has disappeared


def _size(host: Host, device: Device) -> Value:
    """The size in bytes, from the first path with a size: a path on standby (ALUA) may report none.

    None for 0 sectors, as in an empty card reader: then no comparison matches.
    """
    paths = device.cached_values["paths"]
    for path in paths if isinstance(paths, tuple) else ():
        if sectors := read_int(host, f"{BLOCK}/{path}/size"):
            return sectors * _SECTOR
    if device.cached_values["incomplete_because"]:
        raise HostError(str(device.cached_values["incomplete_because"]))
    return None


def _filters(resource: Resource) -> EventFilters:
    """Mounts change nothing but which disks are the system's."""
    if not resource.tests("system"):
        return NO_EVENTS
    needed = {*OS_FOLDERS, *NODE_FOLDERS}
    return EventFilters(MountFilter(disks=True, points=frozenset(needed), trees=OS_TREES))


DETECTOR = DeviceDetector(
    name="disk",
    about="whole disks; no partitions, no devices made of disks (md, dm, loop), no drives without a medium",
    find=find,
    keys={
        "name": Key(
            Text(mistakes=(PATH, SEVERAL_NAMES)),
            lambda _, device: device.name,
            "the kernel's name, such as sda; may change at a reboot",
        ),
        "model": Key(Text(), _model, "model; for SATA disks its first 16 characters"),
        "vendor": Key(Text(), _vendor, "vendor of SCSI disks; for SATA disks it is always ATA"),
        "serial": Key(
            Text(),
            _serial,
            "serial number; many virtual disks have none, and those of virtio end after 20 characters",
        ),
        "wwn": Key(
            Text(fold=True, mistakes=(OTHER_WWN,)),
            _wwn,
            "world-wide name, such as 0x5000c500a1b2c3d4 or eui.0025385b71b00c1d",
        ),
        "type": Key(
            Choice(("nvme", "ssd", "hdd", "pmem")),
            _type,
            "nvme, ssd, hdd or pmem (a namespace of an NVDIMM); virtual disks and USB sticks often report hdd",
        ),
        "transport": Key(
            Text(),
            _transport,
            "how the disk is attached: nvme, nvme-tcp, sata, ata (IDE), sas, usb, iscsi, fc, mmc, virtio, nvdimm, "
            "scsi (other controllers), …",
        ),
        "removable": Key(Flag(), _removable, "whether the medium is removable"),
        "system": Key(
            Flag(),
            is_system,
            "whether the disk holds the machine's own file systems, data of the kubelet or of containers, or swap",
        ),
        "size": Key(Amount("size"), _size, "the size"),
    },
    identity=("wwn", "serial", "name"),
    same_model=("type", "model"),
    defaults={"size": ">0B"},
    subsystems=("block",),
    events=frozenset({KernelEvents.MOUNTS, KernelEvents.SWAPS}),  # some mounts, and swap, make a disk the system's
    filters=_filters,
    vendor_key="vendor",
    model_key="model",
    suggest={"system": False},
)

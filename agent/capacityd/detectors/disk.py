"""disk: whole disks, each counted once however many paths lead to it; neither partitions nor devices made of disks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from capacityd.host.system_devices import system_disks
from capacityd.model.device import Device, DeviceDetector, Key
from capacityd.model.errors import HostError
from capacityd.model.host import (
    Host,
    SystemDevices,
    basename,
    link_name,
    read_int,
    read_optional_attr,
    resolve_link,
)
from capacityd.model.matchers import Value
from capacityd.model.mistakes import PATH, SEVERAL_NAMES
from capacityd.model.value_types import Amount, Choice, Flag, Text

_DISKS = "/sys/block"
_SECTOR = 512  # bytes; /sys counts in these whatever the disk's own block size is
_VIRTUAL = "/sys/devices/virtual/block/"  # where the kernel puts block devices without hardware
_SOFTWARE = ("dm-", "loop", "md", "ram", "zram")
"""Names of block devices without hardware begin so, those of disks never. The name is reliable in any /sys."""
_NOT_DISKS = ("fd", "mtdblock", "rbd", "sr", "ubiblock")
"""Names of drives and of network disks that have a path like that of a disk begin so."""
_TRANSPORTS = (  # a part of the path in /sys -> the transport; the first match wins: a SATA disk behind USB is "usb"
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
"""The transports of NVMe inside the machine: names of nvme_ctrl_ops in the kernel's drivers/nvme/host/{pci,apple}.c."""


def find(host: Host) -> Iterator[Device]:
    """Every disk; one with several paths is the device of its first path.

    If it can't be read whether a disk is another path to one, it is in doubt, and so are those after it that may be
    other paths to it: they might be counted twice.
    """
    disks: dict[str, _Disk] = {}  # by the name of its first path
    first: dict[str, _Disk] = {}  # by identity
    doubt = ""
    for name in host.listdir(_DISKS):
        if _is_excluded(name):
            continue
        try:
            real = host.resolve(f"{_DISKS}/{name}")  # None: it disappeared, and so have its values
            if real is not None and (real.startswith(_VIRTUAL) or _is_hidden(host, name)):
                continue
            identities = _identities(host, name, real) if real else []
        except HostError as e:
            reason = f"it is unknown whether it is another path to a disk: {e}"
            disks[name] = _Disk([name], reason, may_have_others=True)
            doubt = doubt or reason
            continue
        disk = next((first[i] for i in identities if i in first), None)
        if disk is None:
            disk = disks[name] = _Disk([], doubt if identities else "", may_have_others=bool(identities))
        disk.paths.append(name)
        first.update({identity: disk for identity in identities if identity not in first})

    @cache
    def system() -> SystemDevices:
        found = system_disks(host)
        names = frozenset(name for name, disk in disks.items() if not found.names.isdisjoint(disk.paths))
        in_doubt = next((disks[name].doubt for name in sorted(names) if disks[name].doubt), "")
        return SystemDevices(names, found.incomplete_because or in_doubt)

    for name, disk in disks.items():
        cached_values: dict[str, Value] = {"paths": tuple(disk.paths), "doubt": doubt if disk.may_have_others else ""}
        yield Device(f"{_DISKS}/{name}", name.replace("!", "/"), system, cached_values, disk.doubt)


@dataclass(slots=True)
class _Disk:
    """A disk while the disks are enumerated."""

    paths: list[str]
    """The kernel's names of the paths to it."""
    doubt: str
    """Why it is unknown whether it is another path to a disk before it; "" if it is none."""
    may_have_others: bool
    """Whether disks that are in doubt may be other paths to it."""


def _is_excluded(name: str) -> bool:
    """Whether the name alone says that it is not a whole disk. mmcblk0boot0 is a part of the memory card mmcblk0."""
    return name.startswith((*_SOFTWARE, *_NOT_DISKS)) or (name.startswith("mmcblk") and not name[6:].isdigit())


def _is_hidden(host: Host, name: str) -> bool:
    """Whether it is one of several paths to an NVMe namespace: nvme6c6n1 beside nvme6n1, which is the disk."""
    return host.text(f"{_DISKS}/{name}/hidden") == "1"


def _identities(host: Host, name: str, real: str) -> list[str]:
    """What several paths to the same disk have in common: its world-wide name, and the multipath device above it.

    Cheap disks and USB enclosures of one model may all have the same name, so names identify a disk only on buses that
    can have several paths. For NVMe, the serial number must be equal, too. The kernel generates a name that begins with
    "nvme." for a disk without one: it is not used, because clouds give all their controllers the same serial number.
    """
    wwid = None if "/usb" in real or "/ata" in real else _wwid(host, f"{_DISKS}/{name}")
    if wwid and name.startswith("nvme"):
        wwid = None if wwid.startswith("nvme.") else f"{wwid} {host.text(f'{_DISKS}/{name}/device/serial')}"
    holders = [f"{_DISKS}/{name}/holders/{holder}" for holder in host.listdir(f"{_DISKS}/{name}/holders")]
    above = [host.text(f"{holder}/dm/uuid") for holder in holders if resolve_link(host, holder)]
    return [*filter(None, [wwid]), *(uuid for uuid in above if uuid and uuid.startswith("mpath-"))]


def _wwid(host: Host, path: str) -> str | None:
    """The world-wide id: of the namespace for NVMe, of the device for SCSI."""
    return read_optional_attr(host, f"{path}/wwid") or read_optional_attr(host, f"{_parent(host, path)}/wwid") or None


def _parent(host: Host, path: str) -> str:
    """The path of the device that a disk belongs to. Raises HostError if its link leads nowhere."""
    resolve_link(host, f"{path}/device")
    return f"{path}/device"


def _wwn(host: Host, device: Device) -> Value:
    """In the format of lsblk and udev."""
    wwid = _wwid(host, device.path)
    if wwid is None:
        return host.property(device.path, "ID_WWN")
    return f"0x{wwid[4:]}" if wwid.startswith("naa.") else wwid


def _serial(host: Host, device: Device) -> Value:
    """Virtio has it at the disk, NVMe and memory cards at the device; for SCSI and USB, only udev reads it.

    As lsblk does: for a SCSI disk with a world-wide name, ID_SERIAL_SHORT is that name.
    """
    for place in (device.path, _parent(host, device.path)):
        if (serial := host.text(f"{place}/serial")) is not None:
            return serial
    return host.property(device.path, "SCSI_IDENT_SERIAL", "ID_SCSI_SERIAL", "ID_SERIAL_SHORT")


def _model(host: Host, device: Device) -> Value:
    """Memory cards have a name instead."""
    parent = _parent(host, device.path)
    return host.text(f"{parent}/model") or host.text(f"{parent}/name") or None


def _vendor(host: Host, device: Device) -> Value:
    vendor = host.text(f"{_parent(host, device.path)}/vendor")
    return None if vendor and vendor.startswith("0x") else vendor  # virtio has a PCI id there


def _type(host: Host, device: Device) -> Value:
    if device.name.startswith("nvme"):
        return "nvme"
    if device.name.startswith("pmem"):  # the names of drivers/nvdimm/pmem.c and btt.c
        return "pmem"
    path = f"{device.path}/queue/rotational"
    rotational = host.text(path)
    if rotational not in _TYPES:
        raise HostError(f"{path} does not exist" if rotational is None else f'{path} holds "{rotational[:60]}"')
    return _TYPES[rotational]


def _transport(host: Host, device: Device) -> Value:
    """How the disk is attached, by its path in /sys; else the name of its bus."""
    real = host.resolve(device.path) or ""
    found = next((transport for part, transport in _TRANSPORTS if part in real), None)
    if found == "nvme":
        fabric = _fabric(host, real)
        return "nvme" if fabric in _LOCAL_NVME else f"nvme-{fabric}"
    if found == "sata":
        return _ata(host, real)
    return found or link_name(host, f"{_parent(host, device.path)}/subsystem")


def _ata(host: Host, real: str) -> str:
    """Serial or parallel ATA (IDE), by the driver, as lsblk does."""
    number = next((part for part in real.split("/") if part.startswith("host")), "host")
    driver = host.text(f"/sys/class/scsi_host/{number}/proc_name") or ""
    return "ata" if driver == "ata_piix" or driver.startswith("pata") else "sata"


def _fabric(host: Host, real: str) -> str | None:
    """The NVMe transport: pcie, apple-nvme, tcp, rdma or fc. With multipath, it is an attribute of the subsystem's
    controllers."""
    parent = real.rpartition("/")[0]
    for controller in [parent, *(f"{parent}/{name}" for name in host.listdir(parent) if name.startswith("nvme"))]:
        if found := resolve_link(host, controller) and host.text(f"{controller}/transport"):
            return found
    return None


def _removable(host: Host, device: Device) -> Value:
    removable = host.text(f"{device.path}/removable")
    return None if removable is None else removable == "1"  # None: it disappeared


def _is_system(_: Host, device: Device) -> Value:
    return device.system().has(basename(device.path) or "") if device.system else None


def _size(host: Host, device: Device) -> Value:
    """None for 0 sectors, as an empty card reader has: it matches no comparison. A path that the storage keeps on
    standby (ALUA) has 0 sectors, too, so the size is that of the first path that has one."""
    paths = device.cached_values["paths"]
    for path in paths if isinstance(paths, tuple) else ():
        if sectors := read_int(host, f"{_DISKS}/{path}/size"):
            return sectors * _SECTOR
    if device.cached_values["doubt"]:
        raise HostError(str(device.cached_values["doubt"]))
    return None


DETECTOR = DeviceDetector(
    name="disk",
    about="whole disks; neither partitions nor devices made of disks (md, dm, loop), nor drives without a medium",
    find=find,
    keys={
        "name": Key(
            Text(mistakes=(PATH, SEVERAL_NAMES)),
            lambda _, device: device.name,
            "the kernel's name, such as sda; may change at a reboot",
        ),
        "model": Key(Text(), _model, "model; for SATA disks its first 16 characters"),
        "vendor": Key(Text(), _vendor, "vendor of SCSI disks; for SATA disks it is always ATA"),
        "serial": Key(Text(), _serial, "serial number; many virtual disks have none"),
        "wwn": Key(Text(fold=True), _wwn, "world-wide name, such as 0x5000c500a1b2c3d4 or eui.0025385b71b00c1d"),
        "type": Key(
            Choice(("nvme", "ssd", "hdd", "pmem")),
            _type,
            "nvme, ssd, hdd or pmem (a namespace of an NVDIMM); virtual disks and USB sticks often report hdd",
        ),
        "transport": Key(
            Text(),
            _transport,
            "how it is attached: nvme, nvme-tcp, sata, ata (IDE), sas, usb, iscsi, fc, mmc, virtio, nvdimm, "
            "scsi (a controller's own), …",
        ),
        "removable": Key(Flag(), _removable, "whether its medium is removable"),
        "system": Key(Flag(), _is_system, "whether the machine's own file systems or swap are on it"),
        "size": Key(Amount("size"), _size, "its size"),
    },
    identity=("wwn", "serial", "name"),
    alike=("type", "model"),
    defaults={"size": ">0B"},
    subsystems=("block",),
    mounts=True,  # some mounts, and swap, make a disk the system's
    swaps=True,
    words=("vendor", "model"),
    suggest={"system": False},
)

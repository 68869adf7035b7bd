"""disk: whole disks, each counted once however many paths lead to it; no partitions, nothing that stands on disks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from capacityd.host import Host, System, driver_text, last_name, whole
from capacityd.host.system import system_disks
from capacityd.kinds import Amount, Choice, Flag, Text
from capacityd.model import Device, DeviceDetector, Key, Value

_DISKS = "/sys/block"
_SECTOR = 512  # bytes; /sys counts in these whatever the disk's own block size is
_VIRTUAL = "/sys/devices/virtual/block/"  # loop, dm-, md, ram, zram, nbd and what else software makes
_NO_DISK = ("fd", "mtdblock", "rbd", "sr", "ubiblock")  # that have a place of their own all the same
_TRANSPORTS = (  # a part of the path in /sys -> the transport; the first that fits, so a SATA disk behind USB is "usb"
    ("/usb", "usb"),
    ("/session", "iscsi"),
    ("/rport-", "fc"),
    ("/end_device-", "sas"),
    ("/ata", "sata"),
    ("/nvme", "nvme"),
)


def find(host: Host) -> Iterator[Device]:
    """All disks of the machine, a disk with several paths by its first one.

    Raises HostError if it can't be told whether a disk is another's second path: it would be counted twice.
    """
    names = [name for name in host.names(_DISKS) if not _is_no_disk(name)]
    first: dict[str, str] = {}  # what identifies a disk -> its first path
    paths: dict[str, str] = {}  # the first path to a disk -> all paths to it, with spaces between them
    for name in names:
        real = host.resolve(f"{_DISKS}/{name}")
        if real is None or real.startswith(_VIRTUAL) or _is_hidden(host, name):
            continue
        same = _identities(host, name, real)
        known = next((first[i] for i in same if i in first), name)
        paths[known] = f"{paths.get(known, '')} {name}"
        for identity in same:
            first.setdefault(identity, known)

    @cache
    def system() -> System:
        found = system_disks(host)
        return System(frozenset(n for n in paths if not found.names.isdisjoint(paths[n].split())), found.doubt)

    for name, same_disk in paths.items():
        yield Device(f"{_DISKS}/{name}", name.replace("!", "/"), system, {"paths": same_disk})


def _is_no_disk(name: str) -> bool:
    """Block devices that are no disks, or stand on disks that are counted already. mmcblk0boot0 is part of a chip."""
    return name.startswith(_NO_DISK) or (name.startswith("mmcblk") and not name[6:].isdigit())


def _is_hidden(host: Host, name: str) -> bool:
    """Whether it is one of several paths to an NVMe namespace, nvme6c6n1 beside nvme6n1, which is the disk."""
    return host.text(f"{_DISKS}/{name}/hidden") == "1"


def _identities(host: Host, name: str, real: str) -> list[str]:
    """What several paths to the same disk have in common.

    Makers of cheap disks, and of enclosures on USB, give all the same name. So it counts only where there can be
    several paths, and with NVMe, whose older drivers believe it, together with the serial number. One that begins with
    "nvme." the kernel made up for a disk that has none, and clouds give all their controllers one serial number.
    """
    found = None if "/usb" in real or "/ata" in real else _wwid(host, f"{_DISKS}/{name}")
    if found and name.startswith("nvme"):
        found = None if found.startswith("nvme.") else f"{found} {host.text(f'{_DISKS}/{name}/device/serial')}"
    above = [host.text(f"{_DISKS}/{name}/holders/{h}/dm/uuid") for h in host.names(f"{_DISKS}/{name}/holders")]
    return [i for i in (found, *above) if i and (i is found or i.startswith("mpath-"))]


def _wwid(host: Host, path: str) -> str | None:
    """NVMe has it at the namespace, SCSI at the device."""
    return driver_text(host, f"{path}/wwid") or driver_text(host, f"{path}/device/wwid") or None


def _wwn(host: Host, device: Device) -> Value:
    """As lsblk and udev write it, so that it can be copied from there."""
    found = _wwid(host, device.path)
    if found is None:
        return host.properties(device.path).get("ID_WWN")
    return f"0x{found[4:]}" if found.startswith("naa.") else found


def _serial(host: Host, device: Device) -> Value:
    """Virtio has it at the disk, NVMe and memory cards at the device; what SCSI and USB disks say, only udev knows.

    As lsblk does: of a SCSI disk with a world-wide name, what udev calls its short serial number is that name.
    """
    for place in ("serial", "device/serial"):
        found = host.text(f"{device.path}/{place}")
        if found is not None:
            return found
    known = host.properties(device.path)
    return next(
        (known[name] for name in ("SCSI_IDENT_SERIAL", "ID_SCSI_SERIAL", "ID_SERIAL_SHORT") if known.get(name)), None
    )


def _first(*places: str) -> Callable[[Host, Device], Value]:
    """Reads the first of these attributes that there is."""

    def read(host: Host, device: Device) -> Value:
        found = (host.text(f"{device.path}/{place}") for place in places)
        return next((text for text in found if text), None)

    return read


def _vendor(host: Host, device: Device) -> Value:
    found = host.text(f"{device.path}/device/vendor")
    return None if found and found.startswith("0x") else found  # virtio has a number there


def _type(host: Host, device: Device) -> Value:
    if device.name.startswith("nvme"):
        return "nvme"
    rotational = host.text(f"{device.path}/queue/rotational")
    return {"0": "ssd", "1": "hdd"}.get(rotational or "")


def _transport(host: Host, device: Device) -> Value:
    """How the disk is attached, from its place among the devices; else the name of the bus that it is on."""
    real = host.resolve(device.path) or ""
    found = next((transport for part, transport in _TRANSPORTS if part in real), None)
    if found == "nvme":
        fabric = _fabric(host, real)
        return "nvme" if fabric in (None, "pcie") else f"nvme-{fabric}"
    if found == "sata":
        return _ata(host, real)
    return found or last_name(host.resolve(f"{device.path}/device/subsystem"))


def _ata(host: Host, real: str) -> str:
    """Serial ATA, or its parallel forerunner (IDE), by the driver, as lsblk does."""
    number = next((part for part in real.split("/") if part.startswith("host")), "host")
    driver = host.text(f"/sys/class/scsi_host/{number}/proc_name") or ""
    return "ata" if driver == "ata_piix" or driver.startswith("pata") else "sata"


def _fabric(host: Host, real: str) -> str | None:
    """What carries NVMe: pcie, tcp, rdma, fc. With multipath a namespace hangs below a subsystem of controllers."""
    parent = real.rpartition("/")[0]
    for controller in [parent, *(f"{parent}/{name}" for name in host.names(parent) if name.startswith("nvme"))]:
        if found := host.text(f"{controller}/transport"):
            return found
    return None


def _removable(host: Host, device: Device) -> Value:
    found = host.text(f"{device.path}/removable")
    return None if found is None else found == "1"  # None: it went away


def _is_system(_: Host, device: Device) -> Value:
    return device.system().has(last_name(device.path) or "") if device.system else None


def _size(host: Host, device: Device) -> Value:
    """An empty card reader is a disk of 0 sectors: it has no size, and so fits no comparison. Of several paths one may
    have none: the kernel can't ask through one that its storage keeps on standby (ALUA)."""
    for path in str(device.said["paths"]).split():
        if sectors := whole(host, f"{_DISKS}/{path}/size"):
            return sectors * _SECTOR
    return None


DETECTOR = DeviceDetector(
    name="disk",
    about="whole disks; neither partitions nor what stands on other disks (md, dm, loop), nor drives without a medium",
    find=find,
    keys={
        "name": Key(Text(), lambda _, device: device.name, "the kernel's name, such as sda; may change at a restart"),
        "model": Key(Text(), _first("device/model", "device/name"), "model; of SATA disks the first 16 characters"),
        "vendor": Key(Text(), _vendor, "vendor, of SCSI disks; SATA disks all say ATA"),
        "serial": Key(Text(), _serial, "serial number; many virtual disks have none"),
        "wwn": Key(Text(fold=True), _wwn, "world-wide name, such as 0x5000c500a1b2c3d4 or eui.0025385b71b00c1d"),
        "type": Key(
            Choice(("nvme", "ssd", "hdd")), _type, "nvme, ssd or hdd; virtual disks and USB sticks often say hdd"
        ),
        "transport": Key(
            Text(),
            _transport,
            "how it is attached: nvme, nvme-tcp, sata, ata (IDE), sas, usb, iscsi, fc, mmc, virtio, "
            "scsi (a controller's own), …",
        ),
        "removable": Key(Flag(), _removable, "whether its medium can be taken out"),
        "system": Key(Flag(), _is_system, "whether the machine's own file systems or swap are on it"),
        "size": Key(Amount("size"), _size, "its size"),
    },
    identity=("wwn", "serial", "name"),
    alike=("type", "model"),
    defaults={"size": ">0B"},
    subsystems=("block",),
    words=("vendor", "model"),
    suggest={"system": False},
)

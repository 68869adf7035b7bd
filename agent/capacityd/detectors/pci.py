"""pci: PCI functions. A card can have several, and with SR-IOV virtual ones, which are left out unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capacityd.host import Host, last_name, whole
from capacityd.kinds import Amount, Flag, HexId, Text
from capacityd.model import Device, DeviceDetector, Key, Value

_DEVICES = "/sys/bus/pci/devices"
_IDS = {"vendor": "v", "device": "d", "subsystem_vendor": "sv", "subsystem_device": "sd", "class": ""}


def find(host: Host) -> Iterator[Device]:
    """All functions, by their addresses."""
    for name in host.names(_DEVICES):
        yield Device(f"{_DEVICES}/{name}", name)


def _id(name: str) -> Callable[[Host, Device], Value]:
    """Reads an id, which the kernel writes as 0x10de."""

    def read(host: Host, device: Device) -> Value:
        found = host.text(f"{device.path}/{name}")
        return None if found is None else found.removeprefix("0x")

    return read


def _driver(host: Host, device: Device) -> Value:
    return last_name(host.resolve(f"{device.path}/driver"))


def _is_virtual(host: Host, device: Device) -> Value:
    """The kernel links a virtual function to the physical one. Inside a virtual machine nothing tells them apart."""
    if host.resolve(f"{device.path}/physfn") is not None:
        return True
    return None if host.text(f"{device.path}/class") is None else False  # None: it went away


def _virtual_functions(name: str) -> Callable[[Host, Device], Value]:
    """sriov_totalvfs is what a function is capable of, sriov_numvfs what is configured; one without SR-IOV has 0."""

    def read(host: Host, device: Device) -> Value:
        found = whole(host, f"{device.path}/{name}")
        if found is None and host.text(f"{device.path}/vendor") is not None:
            return 0
        return found  # None: the device itself went away

    return read


def _modalias(host: Host, device: Device) -> str | None:
    """As the kernel writes it; see file2alias.c."""
    read = {name: (host.text(f"{device.path}/{name}") or "0x")[2:].upper() for name in _IDS}
    if not all(read.values()):
        return None
    digits = read["class"].zfill(6)
    ids = "".join(f"{short}{read[name].zfill(8)}" for name, short in _IDS.items() if short)
    return f"pci:{ids}bc{digits[:2]}sc{digits[2:4]}i{digits[4:]}"


DETECTOR = DeviceDetector(
    name="pci",
    about="PCI functions; virtual functions (SR-IOV) are left out unless vf = true",
    find=find,
    keys={
        "vendor": Key(HexId(4), _id("vendor"), "vendor id, four hexadecimal digits"),
        "device": Key(HexId(4), _id("device"), "device id, four hexadecimal digits"),
        "subsystem_vendor": Key(HexId(4), _id("subsystem_vendor"), "vendor id of the card's maker"),
        "subsystem_device": Key(HexId(4), _id("subsystem_device"), "device id that the card's maker gave"),
        "class": Key(
            HexId(6, prefix=True),
            _id("class"),
            "class, subclass and interface: 03 is any display, 0302 a 3D controller",
        ),
        "driver": Key(Text(), _driver, "name of the driver that has it; missing if none has"),
        "address": Key(Text(fold=True), lambda _, device: device.name, "its address, such as 0000:3b:00.0"),
        "vf": Key(Flag(), _is_virtual, "whether it is a virtual function"),
        "sriov_totalvfs": Key(
            Amount("number"),
            _virtual_functions("sriov_totalvfs"),
            "virtual functions that it can have, 0 without SR-IOV",
        ),
        "sriov_numvfs": Key(
            Amount("number"), _virtual_functions("sriov_numvfs"), "virtual functions that it is configured to have"
        ),
    },
    identity=("vendor", "device", "address"),
    alike=("vendor", "device"),
    defaults={"vf": False},
    subsystems=("pci",),
    modalias=_modalias,
    # Displays, sound and capture, co-processors, radio, encryption, accelerators. What else a machine is made of
    # (bridges, controllers, sensors) is nothing to hand out; cards for networks and disks are counted as nic and disk.
    suggest={"class": ["03", "04", "0b", "0d", "10", "12"]},
)

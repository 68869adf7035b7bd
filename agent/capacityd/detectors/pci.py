"""pci: PCI functions. A card may have several functions. By default, virtual functions (SR-IOV) do not count."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capacityd.model.host import Host, read_int, resolve_link
from capacityd.schema.device import Device, DeviceDetector, DeviceKey, read_driver, read_name
from capacityd.schema.matchers import Value
from capacityd.schema.mistakes import LONG_PCI_DOMAIN, NO_PCI_DOMAIN
from capacityd.schema.value_types import Amount, Flag, HexId, Text

_DEVICES = "/sys/bus/pci/devices"


def find(host: Host) -> Iterator[Device]:
    """Yields every PCI function. The device's name is its address."""
    for name in host.listdir(_DEVICES):
        yield Device(path=f"{_DEVICES}/{name}", name=name)


def _id_key(attribute: str, about: str) -> DeviceKey:
    """A key whose value is an id of four hexadecimal digits. attribute: the name of the file with the id in /sys."""
    return DeviceKey(HexId(digits=4), _id_reader(attribute), about)


def _id_reader(attribute: str) -> Callable[[Host, Device], Value]:
    """Returns a Python function that reads an id without its 0x: 10de if the file contains 0x10de."""

    def read(host: Host, device: Device) -> Value:
        text = host.text(f"{device.path}/{attribute}")
        return None if text is None else text.removeprefix("0x")

    return read


def _is_virtual(host: Host, device: Device) -> Value:
    """Whether the PCI function is a virtual one, which has a link to its physical function.

    In a virtual machine, a virtual function has no such link, so it looks physical.
    """
    return resolve_link(host, f"{device.path}/physfn") is not None


def _vf_number_key(attribute: str, about: str) -> DeviceKey:
    """A key whose value is a number of virtual functions. A PCI function without SR-IOV lacks the file, so it has 0."""

    def read(host: Host, device: Device) -> Value:
        return read_int(host, f"{device.path}/{attribute}") or 0

    return DeviceKey(Amount("number"), read, about)


DETECTOR = DeviceDetector(
    name="pci",
    about="PCI functions; virtual functions (SR-IOV) count only with vf = true",
    find=find,
    keys={
        "vendor": _id_key("vendor", "vendor id, four hexadecimal digits"),
        "device": _id_key("device", "device id, four hexadecimal digits"),
        "subsystem_vendor": _id_key("subsystem_vendor", "vendor id of the card's manufacturer"),
        "subsystem_device": _id_key("subsystem_device", "device id of the card, given by its manufacturer"),
        "class": DeviceKey(
            HexId(digits=6, prefix_matches=True),
            _id_reader("class"),
            "class, subclass and interface: 03 is any display, 0302 a 3D controller",
        ),
        "driver": DeviceKey(Text(), read_driver, "the driver; missing if the function has none"),
        "address": DeviceKey(
            Text(ignore_case=True, rejects=(NO_PCI_DOMAIN, LONG_PCI_DOMAIN)),
            read_name,
            "the address, such as 0000:3b:00.0; may change if a device is added",
        ),
        "vf": DeviceKey(Flag(), _is_virtual, "whether the function is a virtual function"),
        "sriov_totalvfs": _vf_number_key("sriov_totalvfs", "number of supported virtual functions, 0 without SR-IOV"),
        "sriov_numvfs": _vf_number_key("sriov_numvfs", "number of configured virtual functions"),
    },
    identifying_keys=("vendor", "device", "address"),
    model_keys=("vendor", "device"),
    defaults={"vf": False},
    udev_subsystems=("pci",),
    # Displays (03), sound and capture (04), co-processors (0b), radio (0d), encryption (10) and accelerators (12). Pods
    # do not use bridges, controllers and sensors. The detectors nic and disk count network cards and disks.
    suggestion_filter={"class": ["03", "04", "0b", "0d", "10", "12"]},
)

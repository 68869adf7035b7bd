"""pci: PCI functions. A card may have several functions. By default, virtual functions (SR-IOV) do not count."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capacityd.model.host import Host, link_name, read_int, resolve_link
from capacityd.schema.device import Device, DeviceDetector, DeviceKey
from capacityd.schema.matchers import Value
from capacityd.schema.mistakes import LONG_PCI_DOMAIN, NO_PCI_DOMAIN, SEPARATED_BY_BAR
from capacityd.schema.value_types import Amount, Flag, HexId, Text

_DEVICES = "/sys/bus/pci/devices"


def find(host: Host) -> Iterator[Device]:
    """Yields every function, with its address as the name."""
    for name in host.listdir(_DEVICES):
        yield Device(path=f"{_DEVICES}/{name}", name=name)


def _id_reader(attribute: str) -> Callable[[Host, Device], Value]:
    """Returns the function that reads an id, such as 0x10de, without the 0x."""

    def read(host: Host, device: Device) -> Value:
        text = host.text(f"{device.path}/{attribute}")
        return None if text is None else text.removeprefix("0x")

    return read


def _is_virtual(host: Host, device: Device) -> Value:
    """Whether the function is virtual: it has a link to its physical function. None: the device has disappeared.

    In a virtual machine, a virtual function has no such link, so it looks physical.
    """
    if resolve_link(host, f"{device.path}/physfn") is not None:
        return True
    has_disappeared = host.text(f"{device.path}/class") is None  # every function has this file
    return None if has_disappeared else False


def _vf_number_reader(attribute: str) -> Callable[[Host, Device], Value]:
    """Returns the function that reads sriov_totalvfs (supported) or sriov_numvfs (configured).

    A PCI function without SR-IOV has 0.
    """

    def read(host: Host, device: Device) -> Value:
        number = read_int(host, f"{device.path}/{attribute}")
        if number is not None:
            return number
        has_disappeared = host.text(f"{device.path}/vendor") is None  # every function has this file
        return None if has_disappeared else 0

    return read


DETECTOR = DeviceDetector(
    name="pci",
    about="PCI functions; virtual functions (SR-IOV) count only with vf = true",
    find=find,
    keys={
        "vendor": DeviceKey(HexId(digits=4), _id_reader("vendor"), "vendor id, four hexadecimal digits"),
        "device": DeviceKey(HexId(digits=4), _id_reader("device"), "device id, four hexadecimal digits"),
        "subsystem_vendor": DeviceKey(
            HexId(digits=4), _id_reader("subsystem_vendor"), "vendor id of the card's manufacturer"
        ),
        "subsystem_device": DeviceKey(
            HexId(digits=4), _id_reader("subsystem_device"), "device id of the card, given by its manufacturer"
        ),
        "class": DeviceKey(
            HexId(digits=6, prefix_matches=True),
            _id_reader("class"),
            "class, subclass and interface: 03 is any display, 0302 a 3D controller",
        ),
        "driver": DeviceKey(
            Text(rejects=(SEPARATED_BY_BAR,)),
            lambda host, device: link_name(host, f"{device.path}/driver"),
            "the driver; missing if the function has none",
        ),
        "address": DeviceKey(
            Text(ignore_case=True, rejects=(NO_PCI_DOMAIN, LONG_PCI_DOMAIN)),
            lambda _, device: device.name,
            "the address, such as 0000:3b:00.0",
        ),
        "vf": DeviceKey(Flag(), _is_virtual, "whether the function is a virtual function"),
        "sriov_totalvfs": DeviceKey(
            Amount("number"),
            _vf_number_reader("sriov_totalvfs"),
            "number of supported virtual functions, 0 without SR-IOV",
        ),
        "sriov_numvfs": DeviceKey(
            Amount("number"), _vf_number_reader("sriov_numvfs"), "number of configured virtual functions"
        ),
    },
    identifying_keys=("vendor", "device", "address"),
    model_keys=("vendor", "device"),
    defaults={"vf": False},
    udev_subsystems=("pci",),
    # Displays (03), sound and capture (04), co-processors (0b), radio (0d), encryption (10) and accelerators (12). Pods
    # do not use bridges, controllers and sensors. The detectors nic and disk count network cards and disks.
    suggested_only_if={"class": ["03", "04", "0b", "0d", "10", "12"]},
)

"""udev: devices of any subsystem without a specific detector, such as serial ports, FPGAs, TPMs and sound cards.

Devices are enumerated in /sys; udev's database is read only for tags, links and properties.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

from capacityd.model.errors import AmbiguousValue, HostError
from capacityd.model.host import Host, link_name, uevent_value
from capacityd.schema.device import Device, DeviceDetector, DeviceKey, read_driver, read_name
from capacityd.schema.matchers import Value
from capacityd.schema.mistakes import NOT_EXACT_NAME, NOT_IN_DEV, PATH_INSTEAD_OF_NAME
from capacityd.schema.value_types import Text

_BUSES = "/sys/bus"
_CLASSES = "/sys/class"


def find(host: Host) -> Iterator[Device]:
    """Yields every device of every subsystem."""
    yield from find_in_subsystems(host, {*host.listdir(_BUSES), *host.listdir(_CLASSES)})


def find_in_subsystems(host: Host, subsystems: Collection[str]) -> Iterator[Device]:
    """Yields every device of these subsystems, which are buses or classes. If a folder can't be read, raises HostError
    after yielding the devices in the other folders."""
    first_error: HostError | None = None
    for subsystem in sorted(subsystems):
        for folder in (f"{_BUSES}/{subsystem}/devices", f"{_CLASSES}/{subsystem}"):
            try:
                names = host.listdir(folder)
            except HostError as e:
                first_error = first_error or e
                continue
            for name in names:
                if _may_belong_to(host, f"{folder}/{name}", subsystem):
                    yield Device(path=f"{folder}/{name}", name=name)
    if first_error:
        raise first_error


def _subsystems_hint(host: Host, subsystems: Collection[str]) -> str:
    """The end of a message about subsystems without a device: which one the kernel lacks, or which one to write
    instead; "" if neither is known.

    A class may list devices of other subsystems: mdev_bus lists devices of the bus pci.
    """
    for subsystem in subsystems:
        folder = f"{_CLASSES}/{subsystem}"
        with suppress(HostError):  # no hint about a subsystem that can't be read
            if host.resolve(folder) is None and host.resolve(f"{_BUSES}/{subsystem}") is None:
                return f"; the kernel has no subsystem {subsystem}: is its name right, and its module loaded?"
            links = [link_name(host, f"{folder}/{entry}/subsystem") for entry in host.listdir(folder)]
            listed = {name for name in links if name}  # subsystems of devices; an entry that is no device has none
            if listed - {subsystem}:
                return f"; {folder} lists devices of {', '.join(sorted(listed))}: write that subsystem"
    return ""


def _may_belong_to(host: Host, path: str, subsystem: str) -> bool:
    """Whether the entry at this path, in the subsystem's folder, is a device of this subsystem; True if the entry can't
    be read. The folder of a class may also contain attributes or, such as i2c-adapter, devices of a bus."""
    try:
        own_subsystem = link_name(host, f"{path}/subsystem")
        if own_subsystem is not None:
            return own_subsystem == subsystem
        is_dangling_link = host.resolve(path) is None
    except HostError:
        return True
    return is_dangling_link  # a dangling link may be a device; an attribute is a file


def _subsystem(host: Host, device: Device) -> Value:
    """The subsystem. If it can't be read, raises AmbiguousValue with the subsystem whose folder lists the device, so
    that the device certainly does not match any other subsystem."""
    try:
        name = link_name(host, f"{device.path}/subsystem")
        if name is None:  # find_in_subsystems() also yields dangling links
            raise HostError(f"{device.path} is a dangling link")
    except HostError as e:
        relative = device.path.removeprefix(f"{_BUSES}/").removeprefix(f"{_CLASSES}/")  # usb/devices/1-1, tty/ttyUSB0
        subsystem, _, _ = relative.partition("/")
        raise AmbiguousValue(e, possible=(subsystem,)) from e
    return name


def _node(host: Host, device: Device) -> Value:
    """The device node; None if the device has none."""
    name = uevent_value(host, device.path, "DEVNAME")  # relative to /dev
    return f"/dev/{name}" if name else None


def _tags(host: Host, device: Device) -> Value:
    """The tags that udev's last event gave the device. The property TAGS also contains tags of earlier events."""
    tags = host.property(device.path, "CURRENT_TAGS") or ""
    return tuple(sorted({tag for tag in tags.split(":") if tag}))


def _links(host: Host, device: Device) -> Value:
    """The links to the device node, which spaces separate in udev's database."""
    links = host.property(device.path, "DEVLINKS") or ""
    return tuple(sorted(links.split()))


DETECTOR = DeviceDetector(
    name="udev",
    about="devices of a named subsystem; for devices that another detector counts, use that detector",
    find=find,
    keys={
        "subsystem": DeviceKey(Text(rejects=(NOT_EXACT_NAME,)), _subsystem, "the device's bus or class, such as tty"),
        "name": DeviceKey(
            Text(rejects=(PATH_INSTEAD_OF_NAME,)), read_name, "the name, such as ttyUSB0; may change at a reboot"
        ),
        "devtype": DeviceKey(
            Text(),
            lambda host, device: uevent_value(host, device.path, "DEVTYPE"),
            "the type of the device, if the subsystem has several types",
        ),
        "driver": DeviceKey(Text(), read_driver, "the driver"),
        "node": DeviceKey(Text(rejects=(NOT_IN_DEV,)), _node, "the device node, such as /dev/ttyUSB0"),
        "link": DeviceKey(
            Text(rejects=(NOT_IN_DEV,)),
            _links,
            "a link to the node that udev created, such as /dev/serial/by-id/usb-FTDI_*",
        ),
        "tag": DeviceKey(Text(), _tags, "a tag from udev's rules"),
    },
    identifying_keys=("subsystem", "name"),
    model_keys=("subsystem", "devtype"),
    find_in_subsystems=find_in_subsystems,
    hint_if_none=_subsystems_hint,
    shown_by_default=False,
)

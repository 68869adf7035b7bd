"""udev: devices of any subsystem, for what no other detector knows: serial ports, FPGAs, TPMs, sound cards, ….

/sys says which there are; udev's database (what its rules made of them) is asked for tags, links and properties only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from capacityd.host import Host, last_name
from capacityd.kinds import Text
from capacityd.model import Device, DeviceDetector, Key, Scope, Value

_BUSES, _CLASSES = "/sys/bus", "/sys/class"


def find(host: Host) -> Iterator[Device]:
    """All devices of all subsystems."""
    yield from find_in(host, {*host.names(_BUSES), *host.names(_CLASSES)})


def find_in(host: Host, subsystems: Collection[str]) -> Iterator[Device]:
    """All devices of these subsystems: each is a bus or a class. A class may have attributes of its own among them."""
    for subsystem in sorted(subsystems):
        for folder in (f"{_BUSES}/{subsystem}/devices", f"{_CLASSES}/{subsystem}"):
            for name in host.names(folder):
                if host.resolve(f"{folder}/{name}/subsystem") is not None:
                    yield Device(f"{folder}/{name}", name)


def _subsystem(host: Host, device: Device) -> Value:
    return last_name(host.resolve(f"{device.path}/subsystem"))


def _driver(host: Host, device: Device) -> Value:
    return last_name(host.resolve(f"{device.path}/driver"))


def _uevent(host: Host, device: Device, name: str) -> str | None:
    lines = host.lines(f"{device.path}/uevent")
    return next((line.partition("=")[2] for line in lines if line.startswith(f"{name}=")), None)


def _node(host: Host, device: Device) -> Value:
    """The kernel gives the name below /dev."""
    name = _uevent(host, device, "DEVNAME")
    return f"/dev/{name}" if name else None


def _tags(host: Host, device: Device) -> Value:
    """Those of its last event; udev keeps the older ones beside them for ever, and before systemd 247 only these."""
    known = host.properties(device.path)
    return tuple(sorted({tag for tag in known.get("CURRENT_TAGS", known.get("TAGS", "")).split(":") if tag}))


def _links(host: Host, device: Device) -> Value:
    return tuple(sorted(host.properties(device.path).get("DEVLINKS", "").split()))


DETECTOR = DeviceDetector(
    name="udev",
    about="devices of any subsystem of udev's, which must be named; what other detectors count is theirs to count",
    find=find,
    keys={
        "subsystem": Key(Text(whole=True), _subsystem, "the bus or class that it belongs to, such as tty"),
        "name": Key(Text(), lambda _, device: device.name, "the kernel's name, such as ttyUSB0"),
        "devtype": Key(
            Text(), lambda host, device: _uevent(host, device, "DEVTYPE"), "its type, where a subsystem has several"
        ),
        "driver": Key(Text(), _driver, "its driver"),
        "node": Key(Text(), _node, "its file, such as /dev/ttyUSB0"),
        "link": Key(Text(), _links, "a link to that which udev has made, such as /dev/serial/by-id/usb-FTDI_*"),
        "tag": Key(Text(), _tags, "a tag that udev's rules gave it"),
    },
    identity=("subsystem", "name"),
    alike=("subsystem", "devtype"),
    scope=Scope("subsystem", find_in),
    listed=False,
)

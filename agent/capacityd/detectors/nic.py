"""nic: network interfaces and how fast they are. The physical ones, unless another kind is asked for.

Virtual functions, bonds, bridges and VLANs report the speed of what they stand on: summing all counts it several times.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from capacityd.errors import HostError
from capacityd.host import Host, System, driver_text, last_name, whole
from capacityd.host.system import system_interfaces
from capacityd.kinds import Amount, Choice, Flag, HexId, Text
from capacityd.model import Device, DeviceDetector, Key, Value
from capacityd.printable import printable

_NETS = "/sys/class/net"
_KINDS = ("physical", "vf", "representor", "bmc", "wireless", "bond", "team", "bridge", "vlan", "other", "virtual")
_NETWORKS = ("1", "32")  # ARPHRD_ETHER, ARPHRD_INFINIBAND
_BMCS = (  # vendor and product of what service processors show on USB: iDRAC, iLO, IMM and XCC, AMI's, Supermicro's
    ("413c", "a102"),
    ("03f0", "2927"),
    ("04b3", "4010"),
    ("046b", "ffb0"),
    ("0b1f", "03ee"),
)
_MBIT = 10**6
_NO_WORD = 2**32 - 1  # -1 as older kernels print it


def find(host: Host) -> Iterator[Device]:
    """All interfaces of the network namespace. bonding_masters is a file among them."""

    @cache
    def system() -> System:
        return system_interfaces(host)

    for name in host.names(_NETS):
        if name != "bonding_masters":
            yield Device(f"{_NETS}/{name}", printable(name), system)


def _hardware(host: Host, device: Device) -> str | None:
    """What the interface belongs to, as a path; None for one that is made of software."""
    return host.resolve(f"{device.path}/device")


def _kind(host: Host, device: Device) -> Value:
    """Everything with hardware of its own is physical, but for what shares it with another interface."""
    kind = _software_kind(host, device.path) or _hardware_kind(host, device) or "virtual"
    found = host.text(f"{device.path}/type")
    if found is None:
        return None  # it went away, and the rest may have been read too late
    return "other" if kind == "physical" and found not in _NETWORKS else kind


def _hardware_kind(host: Host, device: Device) -> str | None:
    path, hardware = device.path, _hardware(host, device)
    if hardware is None:
        return None
    if _devtype(host, path) in ("bluetooth", "wlan", "wwan") or host.resolve(f"{path}/phy80211"):
        return "wireless"
    if host.resolve(f"{path}/device/physfn") or ".sf." in (last_name(hardware) or ""):
        return "vf"
    # On Azure, and with a failover interface of virtio, a virtual function is the member of an interface that has
    # hardware too, as no bond or bridge has, and speaks for both.
    if host.resolve(f"{path}/master/device"):
        return "vf"
    if _is_representor(host, path):
        return "representor"
    if host.names(f"{path}/dsa"):
        return "other"  # its far end is a switch inside the machine, whose ports are interfaces themselves
    if _bus(host, device) == "usb":
        ids = tuple(_id(host, device, {"usb": name})[1] for name in ("idVendor", "idProduct"))
        return "bmc" if ids in _BMCS or _id(host, device, {"usb": "manufacturer"})[1] == "OpenBMC" else "physical"
    return "physical"


def _software_kind(host: Host, path: str) -> str | None:
    devtype = _devtype(host, path)
    if devtype in ("bond", "bridge", "vlan"):
        return devtype
    # A child of an IPoIB interface has its parent's device.
    if host.text(f"{path}/parent"):
        return "virtual"
    # A team says in /sys neither what it is nor how its members share; without members it is nothing.
    made = not devtype and host.resolve(f"{path}/device") is None
    below = made and any(name.startswith("lower_") for name in host.names(path))
    return "team" if below and host.link_kind(last_name(path) or "") == "team" else None


def _devtype(host: Host, path: str) -> str:
    lines = host.lines(f"{path}/uevent")
    return next((line[8:] for line in lines if line.startswith("DEVTYPE=")), "")


def _is_representor(host: Host, path: str) -> bool:
    """Whether it is the switch's end of a virtual or sub-function: its port is called pf0vf1, a physical one p0."""
    return "pf" in (driver_text(host, f"{path}/phys_port_name") or "")


def _driver(host: Host, device: Device) -> Value:
    return last_name(host.resolve(f"{device.path}/device/driver"))


def _bus(host: Host, device: Device) -> Value:
    return last_name(host.resolve(f"{device.path}/device/subsystem"))


def _ids(usb: str, pci: str) -> Callable[[Host, Device], Value]:
    """Reads an id of the USB or PCI device that the interface belongs to: the nearest one, going up."""
    return lambda host, device: _id(host, device, {"usb": usb, "pci": pci})[1]


def _id(host: Host, device: Device, names: Mapping[str, str]) -> tuple[str, str | None]:
    """The bus and the id; names: bus -> the attribute that holds it."""
    path = _hardware(host, device) or ""
    while path.startswith("/sys/devices/"):
        bus = last_name(host.resolve(f"{path}/subsystem")) or ""
        found = host.text(f"{path}/{names[bus]}") if bus in names else None
        if found is not None:
            return bus, found.removeprefix("0x")
        path = path.rpartition("/")[0]
    return "", None


def _modalias(host: Host, device: Device) -> str | None:
    """That of the hardware below it, as far as its ids go."""
    bus, vendor = _id(host, device, {"usb": "idVendor", "pci": "vendor"})
    _, product = _id(host, device, {"usb": "idProduct", "pci": "device"})
    if not vendor or not product:
        return None
    width = 8 if bus == "pci" else 4
    return f"{bus}:v{vendor.upper().zfill(width)}{'d' if bus == 'pci' else 'p'}{product.upper().zfill(width)}"


def _link(host: Host, device: Device) -> Value:
    """Up if it can carry packets now. Some drivers don't keep operstate; carrier fails while the interface is down."""
    state = host.text(f"{device.path}/operstate")
    if state != "unknown":
        return None if state is None else "up" if state == "up" else "down"
    try:
        carrier = host.text(f"{device.path}/carrier")
        return None if carrier is None else "up" if carrier == "1" else "down"
    except HostError as e:
        if e.errno != errno.EINVAL:
            raise
        return "down"


def _is_system(_: Host, device: Device) -> Value:
    return device.system().has(last_name(device.path) or "") if device.system else None


def _speed(host: Host, device: Device) -> Value:
    """The negotiated speed. -1 (prometheus/node_exporter#1967), 0 and EINVAL all mean that there is none to tell."""
    if _link(host, device) == "down":
        raise HostError("its link is down, so it has no speed")
    path = f"{device.path}/speed"
    text = driver_text(host, path)
    speed = None if not text or text.startswith("-") else whole(host, path)
    if speed in (None, 0, _NO_WORD):
        raise HostError("its driver does not tell its speed")
    return speed * _MBIT


def _max_speed(host: Host, device: Device) -> Value:
    """The best link mode of an interface, whatever the optics or the other end make of it (netdata#14803)."""
    name = last_name(device.path) or ""
    kind = _software_kind(host, device.path)
    if kind == "team":
        raise HostError("it is a team; how its members share the load is known to the program that runs it only")
    if kind != "bond":
        return _best(host, name)
    members = [_best(host, member) for member in (host.text(f"{device.path}/bonding/slaves") or "").split()]
    if not members:
        raise HostError("it is a bond without members, so it has no speed")
    mode = (host.text(f"{device.path}/bonding/mode") or "").partition(" ")[0]
    if not mode:
        raise HostError("it is a bond that does not tell its mode")
    if mode == "802.3ad":  # members of one speed make a group, and of several groups one is active
        return max(speed * members.count(speed) for speed in members)
    if mode.startswith("balance-"):
        return sum(members)
    # One member is active at a time, and the administrator prefers the best; broadcast is as slow as its slowest.
    return min(members) if mode == "broadcast" else max(members)


def _best(host: Host, name: str) -> int:
    speeds = host.link_speeds(name)
    if not speeds:
        raise HostError(f"the driver of {printable(name)} names no link modes")
    return max(speeds)


DETECTOR = DeviceDetector(
    name="nic",
    about='network interfaces; physical ones, unless the table says kind = "bond" or another',
    find=find,
    keys={
        "name": Key(Text(), lambda _, device: device.name, "its name, such as eth0"),
        "driver": Key(Text(), _driver, "driver of the hardware below it"),
        "bus": Key(Text(), _bus, "bus of the hardware below it: pci, usb, virtio, …"),
        "vendor": Key(HexId(4), _ids("idVendor", "vendor"), "vendor id of the PCI or USB device below it"),
        "device": Key(HexId(4), _ids("idProduct", "device"), "device or product id of the PCI or USB device below it"),
        "kind": Key(
            Choice(_KINDS),
            _kind,
            "physical: virtio, too; vf: of SR-IOV, or the lower half of an accelerated pair; bmc: to the machine's own "
            "service processor (iDRAC, iLO); other: CAN, or to a switch inside the machine; virtual: all else",
        ),
        "link": Key(Choice(("up", "down")), _link, "whether the link is up now; what depends on it may come and go"),
        "system": Key(
            Flag(), _is_system, "whether it carries the default route, itself or below a bond, bridge or VLAN"
        ),
        "max_speed": Key(
            Amount("speed"),
            _max_speed,
            "the best link mode that it supports; for a bond, what its members make together",
        ),
        "speed": Key(Amount("speed"), _speed, "the speed that it runs at now; unknown while the link is down"),
    },
    identity=("name",),
    alike=("vendor", "device"),
    defaults={"kind": "physical"},
    subsystems=("net",),
    modalias=_modalias,
    suggest={"system": False},
    links=True,
)

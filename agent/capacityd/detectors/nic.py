"""nic: network interfaces and their speeds; physical ones by default.

Virtual functions, bonds, bridges and VLANs report the speed of the underlying interfaces, which must not count twice.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

from capacityd.host.ethtool import speeds_of
from capacityd.host.system_devices import system_interfaces
from capacityd.model.device import Device, DeviceDetector, Key, is_system
from capacityd.model.errors import AmbiguousValue, HostError
from capacityd.model.host import (
    Host,
    basename,
    link_name,
    read_int,
    read_optional_attr,
    resolve_link,
    uevent_value,
)
from capacityd.model.matchers import Value
from capacityd.model.mistakes import ALTERNATIVES, PATH, SEVERAL_NAMES
from capacityd.model.reasons import KernelEvents
from capacityd.model.text import printable
from capacityd.model.value_types import Amount, Choice, Flag, HexId, Text

_NETS = "/sys/class/net"
_KINDS = ("physical", "vf", "representor", "bmc", "wireless", "bond", "team", "bridge", "vlan", "other", "virtual")
_WITHOUT_HARDWARE = ("bond", "team", "bridge", "vlan", "virtual")
_NETWORK_TYPES = ("1", "32")  # ARPHRD_ETHER, ARPHRD_INFINIBAND
_WIRELESS_DEVTYPES = ("bluetooth", "wimax", "wlan", "wwan")
_BMC_IDS = (  # USB vendor and product of service processors: iDRAC, iLO, IMM and XCC, AMI's, Supermicro's
    ("413c", "a102"),
    ("03f0", "2927"),
    ("04b3", "4010"),
    ("046b", "ffb0"),
    ("0b1f", "03ee"),
)
_MBIT = 10**6
_SPEED_UNKNOWN = 2**32 - 1  # SPEED_UNKNOWN (-1) as older kernels print it


def find(host: Host) -> Iterator[Device]:
    """Yields every interface of the network namespace. The file bonding_masters is in the same folder."""
    system = cache(partial(system_interfaces, host))
    for name in host.listdir(_NETS):
        if name != "bonding_masters":
            yield Device(f"{_NETS}/{name}", printable(name), system)


def _hardware(host: Host, device: Device) -> str | None:
    """The path of the interface's hardware device; None for a software interface."""
    return resolve_link(host, f"{device.path}/device")


def _kind(host: Host, device: Device) -> Value:
    hardware = _hardware(host, device)
    try:
        kind = _software_kind(host, device.path) or (_hardware_kind(host, device, hardware) if hardware else "virtual")
    except HostError as e:
        if hardware is None:
            raise AmbiguousValue(e, _WITHOUT_HARDWARE) from e
        raise
    return kind if host.resolve(device.path) else None  # None: the interface disappeared, perhaps during the reads


def _hardware_kind(host: Host, device: Device, hardware: str) -> str:
    """Physical, unless the interface shares its hardware with another interface or is not a network port."""
    path = device.path
    if uevent_value(host, path, "DEVTYPE") in _WIRELESS_DEVTYPES:
        return "wireless"
    # Old drivers set no DEVTYPE, and those older than cfg80211 have no phy80211 either (net/core/net-sysfs.c).
    if resolve_link(host, f"{path}/phy80211") or host.resolve(f"{path}/wireless"):
        return "wireless"
    # The device of a subfunction has a name such as mlx5_core.sf.4.
    if resolve_link(host, f"{path}/device/physfn") or ".sf." in (basename(hardware) or ""):
        return "vf"
    # On Azure, and with virtio failover, a virtual function belongs to an interface that has hardware itself, unlike a
    # bond or a bridge. That interface counts for both.
    if resolve_link(host, f"{path}/master") and resolve_link(host, f"{path}/master/device"):
        return "vf"
    if _is_representor(host, path):
        return "representor"
    if host.listdir(f"{path}/dsa"):
        return "other"  # the conduit to a switch inside the machine; the switch's ports are separate interfaces
    if _bus(host, device) == "usb" and _is_bmc(host, device):
        return "bmc"
    return "physical" if host.text(f"{path}/type") in _NETWORK_TYPES else "other"


def _software_kind(host: Host, path: str) -> str | None:
    devtype = uevent_value(host, path, "DEVTYPE")
    if devtype in ("bond", "bridge", "vlan"):
        return devtype
    # A child of an IPoIB interface links to its parent's device.
    if host.text(f"{path}/parent"):
        return "virtual"
    # /sys does not show whether an interface is a team. A team without members can't carry anything.
    may_be_team = not devtype and host.resolve(f"{path}/device") is None
    has_members = may_be_team and any(name.startswith("lower_") for name in host.listdir(path))
    return "team" if has_members and host.link_kind(basename(path) or "") == "team" else None


def _is_bmc(host: Host, device: Device) -> bool:
    """Whether the interface leads to the machine's own service processor."""
    ids = tuple(_id(host, device, {"usb": name})[1] for name in ("idVendor", "idProduct"))
    return ids in _BMC_IDS or _id(host, device, {"usb": "manufacturer"})[1] == "OpenBMC"


def _is_representor(host: Host, path: str) -> bool:
    """Whether it is the switch port of a virtual function or subfunction: named like pf0vf1; p0 is a physical port."""
    return "pf" in (read_optional_attr(host, f"{path}/phys_port_name") or "")


def _driver(host: Host, device: Device) -> Value:
    return link_name(host, f"{device.path}/device/driver") if _hardware(host, device) else None


def _bus(host: Host, device: Device) -> Value:
    return link_name(host, f"{device.path}/device/subsystem") if _hardware(host, device) else None


def _ids(usb: str, pci: str) -> Callable[[Host, Device], Value]:
    """Reads an id of the interface's USB or PCI device: the nearest one above the interface."""
    return lambda host, device: _id(host, device, {"usb": usb, "pci": pci})[1]


def _id(host: Host, device: Device, names: Mapping[str, str]) -> tuple[str, str | None]:
    """The bus and the id. names: bus -> the attribute with the id."""
    path = _hardware(host, device) or ""
    while path.startswith("/sys/devices/"):
        bus = link_name(host, f"{path}/subsystem") or ""
        text = host.text(f"{path}/{names[bus]}") if bus in names else None
        if text is not None:
            return bus, text.removeprefix("0x")
        path = path.rpartition("/")[0]
    return "", None


def _modalias(host: Host, device: Device) -> str | None:
    """The modalias of the interface's PCI or USB device, with only vendor and product."""
    bus, vendor = _id(host, device, {"usb": "idVendor", "pci": "vendor"})
    _, product = _id(host, device, {"usb": "idProduct", "pci": "device"})
    if not vendor or not product:
        return None
    width = 8 if bus == "pci" else 4
    return f"{bus}:v{vendor.upper().zfill(width)}{'d' if bus == 'pci' else 'p'}{product.upper().zfill(width)}"


def _link(host: Host, device: Device) -> Value:
    """Whether the link can carry packets now. Some drivers do not set operstate; carrier is EINVAL while it is down."""
    state, up = host.text(f"{device.path}/operstate"), "up"
    if state == "unknown":
        try:
            state, up = host.text(f"{device.path}/carrier"), "1"
        except HostError as e:
            if e.errno != errno.EINVAL:
                raise
            return "down"
    if state is None:
        return None
    return "up" if state == up else "down"


def _speed(host: Host, device: Device) -> Value:
    """The negotiated speed in bit/s. -1 (prometheus/node_exporter#1967), 0 and EINVAL all mean that it is unknown."""
    if _link(host, device) == "down":
        raise HostError("its link is down, so it has no speed")
    path = f"{device.path}/speed"
    text = read_optional_attr(host, path)
    speed = None if not text or text.startswith("-") else read_int(host, path)
    if speed in (None, 0, _SPEED_UNKNOWN):
        raise HostError("its driver does not report its speed")
    return speed * _MBIT


def _max_speed(host: Host, device: Device) -> Value:
    """The speed of the best supported link mode, even if its optics or link partner are slower (netdata#14803)."""
    name = basename(device.path) or ""
    kind = _software_kind(host, device.path)
    if kind == "team":
        raise HostError("it is a team; only the program that manages it knows how its members share the load")
    if kind != "bond":
        return _best_speed(host, name)
    members = [_best_speed(host, member) for member in (host.text(f"{device.path}/bonding/slaves") or "").split()]
    if not members:
        raise HostError("it is a bond without members, so it has no speed")
    mode = (host.text(f"{device.path}/bonding/mode") or "").partition(" ")[0]
    if not mode:
        raise HostError("it is a bond that does not report its mode")
    if mode == "802.3ad":  # members of the same speed form an aggregator, and only one aggregator is active
        return max(speed * members.count(speed) for speed in members)
    if mode.startswith("balance-"):
        return sum(members)
    # One member is active at a time, preferably the fastest. Broadcast is as slow as its slowest member.
    return min(members) if mode == "broadcast" else max(members)


def _best_speed(host: Host, name: str) -> int:
    speeds = speeds_of(host.link_modes(name))
    if not speeds:
        raise HostError(f"the driver of {printable(name)} reports no link modes")
    return max(speeds)


DETECTOR = DeviceDetector(
    name="nic",
    about='network interfaces; physical ones, unless the table has kind = "bond" or another',
    find=find,
    keys={
        "name": Key(Text(mistakes=(PATH, SEVERAL_NAMES)), lambda _, device: device.name, "the name, such as eth0"),
        "driver": Key(Text(mistakes=(ALTERNATIVES,)), _driver, "the hardware's driver"),
        "bus": Key(Text(), _bus, "the hardware's bus: pci, usb, virtio, …"),
        "vendor": Key(HexId(4), _ids("idVendor", "vendor"), "vendor id of the PCI or USB device"),
        "device": Key(HexId(4), _ids("idProduct", "device"), "device or product id of the PCI or USB device"),
        "kind": Key(
            Choice(_KINDS),
            _kind,
            "physical: includes virtio; vf: of SR-IOV, or the lower half of an accelerated pair; bmc: to the machine's "
            "service processor (iDRAC, iLO); other: CAN, or to a switch inside the machine; virtual: other software",
        ),
        "link": Key(
            Choice(("up", "down")), _link, "whether the link is up now, so the quantity may change at any time"
        ),
        "system": Key(
            Flag(), is_system, "whether it carries the default route, directly or below a bond, bridge or VLAN"
        ),
        "max_speed": Key(
            Amount("speed"),
            _max_speed,
            "speed of the best supported link mode; for a bond, of its active members together",
        ),
        "speed": Key(Amount("speed"), _speed, "the negotiated speed; unknown while the link is down"),
    },
    identity=("name",),
    alike=("vendor", "device"),
    defaults={"kind": "physical"},
    subsystems=("net",),
    modalias=_modalias,
    suggest={"system": False},
    events=frozenset({KernelEvents.LINKS}),
)

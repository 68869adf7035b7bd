"""nic: network interfaces and their speeds. By default, only physical interfaces count.

Virtual functions, bonds, bridges and VLANs report the speed of the interfaces below them, which must not count twice.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from functools import cache, partial

from capacityd.host.ethtool import speeds_of
from capacityd.host.interface_kind import hardware_ids, hardware_kind, software_kind
from capacityd.host.system_interfaces import lower_interfaces, system_interfaces
from capacityd.model.errors import AmbiguousValue, HostError
from capacityd.model.host import Host, device_of, link_name, read_optional_attr, resolve_link, whole_number_in
from capacityd.model.reasons import KernelEvents
from capacityd.model.text import printable
from capacityd.schema.device import Device, DeviceDetector, DeviceKey, is_system, read_name
from capacityd.schema.matchers import Value
from capacityd.schema.mistakes import NOT_AN_INTERFACE
from capacityd.schema.value_types import Amount, Choice, Flag, HexId, Text

_INTERFACES = "/sys/class/net"
_KINDS = ("physical", "vf", "representor", "bmc", "wireless", "bond", "team", "bridge", "vlan", "other", "virtual")
_KINDS_WITHOUT_HARDWARE = ("bond", "team", "bridge", "vlan", "virtual")
_MBIT = 10**6
_UNKNOWN_SPEEDS = (0, 2**16 - 1)
"""Speeds in Mbit/s that ethtool(8) shows as unknown. Drivers that set only 16 bits of the speed report -1 as 65535."""
_MAX_SPEED = 2**31 - 1
"""The highest speed in Mbit/s (INT_MAX). The only higher number that ethtool_validate_speed() in
include/uapi/linux/ethtool.h accepts is 2**32 - 1, which means that the speed is unknown (SPEED_UNKNOWN)."""


def find(host: Host) -> Iterator[Device]:
    """Yields every interface of the network namespace."""
    read_system_interfaces = cache(partial(system_interfaces, host))  # reads the routes only once for all interfaces
    for name in host.listdir(_INTERFACES):
        if name != "bonding_masters":  # a file of the driver for bonds
            yield Device(path=f"{_INTERFACES}/{name}", name=printable(name), read_system_devices=read_system_interfaces)


def _hardware(host: Host, device: Device) -> str | None:
    """The path of the interface's hardware device; None for a software interface."""
    return resolve_link(host, f"{device.path}/device")


def _kind(host: Host, device: Device) -> Value:
    """The kind; None if the interface has disappeared."""
    hardware = _hardware(host, device)
    if hardware is None:
        try:
            kind = software_kind(host, device.path) or "virtual"
        except HostError as e:
            raise AmbiguousValue(e, possible=_KINDS_WITHOUT_HARDWARE) from e  # a software interface has one of these
    else:
        kind = software_kind(host, device.path) or hardware_kind(host, device.path, hardware)
    has_disappeared = host.resolve(device.path) is None  # it has no files then, so the kind above is wrong
    return None if has_disappeared else kind


def _driver(host: Host, device: Device) -> Value:
    return link_name(host, f"{device_of(host, device.path)}/driver")


def _bus(host: Host, device: Device) -> Value:
    return link_name(host, f"{device_of(host, device.path)}/subsystem")


def _vendor(host: Host, device: Device) -> Value:
    vendor, _ = _vendor_and_product(host, device)
    return vendor


def _product(host: Host, device: Device) -> Value:
    _, product = _vendor_and_product(host, device)
    return product


def _vendor_and_product(host: Host, device: Device) -> tuple[str, str]:
    """The vendor id and the product id of the nearest USB or PCI device; both are "" if there is none."""
    hardware = _hardware(host, device)
    return hardware_ids(host, hardware) if hardware else ("", "")


def _link_state(host: Host, path: str) -> str | None:
    """The state of an interface's link: up if it can carry packets now, else down. None if the interface has
    disappeared."""
    state = host.text(f"{path}/operstate")
    if state == "unknown":  # some drivers do not set operstate
        return _link_state_by_carrier(host, path)
    if state is None:
        return None
    return "up" if state == "up" else "down"


def _link_state_by_carrier(host: Host, path: str) -> str | None:
    """The state of the link according to its carrier. None if the interface has disappeared."""
    try:
        carrier = host.text(f"{path}/carrier")
    except HostError as e:
        if e.errno != errno.EINVAL:
            raise
        return "down"  # the interface is switched off, so the kernel reports EINVAL
    if carrier is None:
        return None
    return "up" if carrier == "1" else "down"


def _speed(host: Host, device: Device) -> Value:
    """The negotiated speed in bit/s. Raises HostError if the link is down or the driver does not report the speed."""
    if _link_state(host, device.path) == "down":
        raise HostError("its link is down, so it has no speed")
    speed = _current_speed(host, device.path)
    if speed is None:
        raise HostError("its driver does not report its speed")
    return speed


def _current_speed(host: Host, path: str) -> int | None:
    """The present speed of an interface's link in bit/s; None if the driver does not report it. Raises HostError."""
    text = read_optional_attr(host, f"{path}/speed")
    if not text or text.startswith("-"):  # -1 means unknown (prometheus/node_exporter#1967)
        return None
    speed = whole_number_in(text, f"{path}/speed")
    is_known = speed <= _MAX_SPEED and speed not in _UNKNOWN_SPEEDS
    return speed * _MBIT if is_known else None


def _max_speed(host: Host, device: Device) -> Value:
    """The speed in bit/s of the interface's best supported link mode, even if the link partner is slower.

    Some drivers support only the modes of the plugged module (phylink, ixgbe). The speed of a bond is what its members
    can carry together in its mode. Raises HostError if the speed is unknown.
    """
    name = os.path.basename(device.path)
    kind = software_kind(host, device.path)
    if kind == "team":
        raise HostError("it is a team; only the program that manages it knows how its members share the load")
    if kind != "bond":
        return _best_speed(host, name)
    speeds = [_best_speed(host, member) for member in lower_interfaces(host, name)]
    if not speeds:
        raise HostError("it is a bond without members, so it has no speed")
    mode_and_number = host.text(f"{device.path}/bonding/mode")  # such as "802.3ad 4"
    if not mode_and_number:
        raise HostError("it is a bond that does not report its mode")
    mode, _, _ = mode_and_number.partition(" ")
    return _bond_speed(mode, speeds)


def _bond_speed(mode: str, speeds: Sequence[int]) -> int:
    """The speed that the members of a bond can carry together. speeds: the speed of each member."""
    if mode == "802.3ad":  # members of the same speed form an aggregator, and only one aggregator is active
        return max(speed * speeds.count(speed) for speed in speeds)
    if mode.startswith("balance-"):
        return sum(speeds)
    if mode == "broadcast":  # every member sends everything
        return min(speeds)
    return max(speeds)  # one member is active at a time, preferably the fastest


def _best_speed(host: Host, name: str) -> int:
    """The speed in bit/s of an interface's fastest link mode. Raises HostError if the driver reports no modes.

    Some drivers, such as enic and vmxnet3, do not report all modes. If the link is now faster than all reported modes,
    returns the link's speed.
    """
    speeds = speeds_of(host.link_modes(name))
    if not speeds:
        raise HostError(f"the driver of {name} reports no link modes")
    mode_speed = max(speeds)
    path = f"{_INTERFACES}/{name}"
    if _link_state(host, path) != "up":
        return mode_speed
    current_speed = _current_speed(host, path)
    if current_speed is None:
        return mode_speed
    return max(mode_speed, current_speed)


DETECTOR = DeviceDetector(
    name="nic",
    about='network interfaces; physical ones, unless the table has kind = "bond" or another',
    find=find,
    keys={
        "name": DeviceKey(
            Text(rejects=NOT_AN_INTERFACE),
            read_name,
            "the name; eth0 may be another interface after a reboot. To match the slot or the MAC address, use "
            "properties = { ID_PATH = … } or attributes = { address = … }",
        ),
        "driver": DeviceKey(Text(), _driver, "the hardware's driver"),
        "bus": DeviceKey(Text(), _bus, "the hardware's bus: pci, usb, virtio, …"),
        "vendor": DeviceKey(HexId(digits=4), _vendor, "vendor id of the PCI or USB device"),
        "device": DeviceKey(HexId(digits=4), _product, "device or product id of the PCI or USB device"),
        "kind": DeviceKey(
            Choice(_KINDS),
            _kind,
            "physical includes virtio; vf is a function of SR-IOV or vDPA, or the lower of two interfaces that work as "
            "one (Azure's accelerated networking, virtio with failover); bmc leads to the machine's service processor "
            "(iDRAC, iLO); other is CAN, or leads to a switch inside the machine; virtual is any other software",
        ),
        "link": DeviceKey(
            Choice(("up", "down")),
            lambda host, device: _link_state(host, device.path),
            "whether the link is up now, so the quantity may change at any time",
        ),
        "system": DeviceKey(
            Flag(),
            is_system,
            "whether the interface carries a default route, directly or below a bond, VLAN or other interface",
        ),
        "max_speed": DeviceKey(
            Amount("speed"),
            _max_speed,
            "speed of the best supported link mode, or of the link if that is faster; for a bond, what its "
            "members can carry together in its mode",
        ),
        "speed": DeviceKey(Amount("speed"), _speed, "the negotiated speed; unknown while the link is down"),
    },
    identifying_keys=("name",),
    model_keys=("vendor", "device"),
    defaults={"kind": "physical"},
    udev_subsystems=("net",),
    suggestion_filter={"system": False},
    kernel_events=frozenset({KernelEvents.LINKS}),
    system_events=frozenset({KernelEvents.ROUTES}),
)

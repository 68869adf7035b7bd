"""address: the IP addresses of interfaces. The detector pool counts the addresses of a range instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache, partial
from typing import cast

from capacityd.host.system_interfaces import system_interfaces
from capacityd.model.host import Address, Host
from capacityd.model.reasons import KernelEvents
from capacityd.model.text import printable
from capacityd.schema.device import Device, DeviceDetector, DeviceKey, cached_key
from capacityd.schema.matchers import Value
from capacityd.schema.mistakes import NOT_AN_INTERFACE
from capacityd.schema.value_types import Choice, Flag, Network, Text


def find(host: Host) -> Iterator[Device]:
    """Yields each address once. The device's path is that of the address's first interface.

    Several interfaces may have the same address: CNI's plugin ptp gives the gateway's address to each pod's
    interface. A link-local address is valid only on its link, so it counts once for each interface.
    """
    read_system_interfaces = cache(partial(system_interfaces, host))  # reads the routes only once for all addresses
    equal_addresses: defaultdict[tuple[str, str], list[Address]] = defaultdict(list)
    for address in host.addresses():
        link = address.interface if address.scope == "link" else ""  # "": not limited to one link
        equal_addresses[address.address, link].append(address)
    for addresses in equal_addresses.values():
        first = addresses[0]
        interfaces = tuple(address.interface for address in addresses)
        names = tuple(map(printable, interfaces))
        interface: Value = names[0] if len(names) == 1 else names
        yield Device(
            path=f"/sys/class/net/{first.interface}",
            name=f"{names[0]} {first.address}/{first.prefix}",
            read_system_devices=read_system_interfaces,
            cached_values={**asdict(first), "interface": interface},
            detector_data=interfaces,
        )


def _system(_: Host, device: Device) -> Value:
    """Whether one of the address's interfaces carries the default route. Raises HostError."""
    if device.read_system_devices is None:
        return None
    interfaces = cast("tuple[str, ...]", device.detector_data)
    return device.read_system_devices().has(*interfaces)


DETECTOR = DeviceDetector(
    name="address",
    about="IP addresses of the machine's interfaces that other machines can reach",
    find=find,
    keys={
        "interface": cached_key(
            "interface",
            Text(rejects=NOT_AN_INTERFACE),
            "the interface, such as eth0; interfaces for containers also have addresses (docker0, kube-ipvs0)",
        ),
        "family": cached_key("family", Choice(("ipv4", "ipv6")), "ipv4 or ipv6"),
        "address": cached_key("address", Network(), 'the address, or a network that contains it: "192.0.2.0/24"'),
        "scope": cached_key(
            "scope", Choice(("global", "site", "link", "host")), "the scope; private addresses are also global"
        ),
        "temporary": cached_key("temporary", Flag(), "whether the address is a temporary IPv6 address (RFC 8981)"),
        "system": DeviceKey(Flag(), _system, "whether the interface carries the default route"),
    },
    identifying_keys=("interface", "address"),
    model_keys=("interface", "family"),
    defaults={"scope": "global", "temporary": False},
    kernel_events=frozenset({KernelEvents.LINKS, KernelEvents.ADDRESSES}),
    system_events=frozenset({KernelEvents.ROUTES}),
    suggestion_filter={"system": False},
    shown_by_default=False,
)

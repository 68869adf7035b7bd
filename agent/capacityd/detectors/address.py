"""address: the IP addresses of interfaces. The detector pool counts the addresses of a range instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import cache, partial

from capacityd.host.system_interfaces import system_interfaces
from capacityd.model.event_filters import AddressPattern, EventFilters, LinkFilter, Pattern
from capacityd.model.host import Host
from capacityd.model.reasons import KernelEvents
from capacityd.model.text import printable
from capacityd.schema.config import Resource
from capacityd.schema.device import Device, DeviceDetector, Key, cached_reader, is_system
from capacityd.schema.mistakes import NOT_AN_INTERFACE
from capacityd.schema.value_types import Choice, Flag, Network, Text


def find(host: Host) -> Iterator[Device]:
    """Yields every address, as a device with the path of its interface."""
    read_system_interfaces = cache(partial(system_interfaces, host))
    for address in host.addresses():
        interface = printable(address.interface)
        yield Device(
            path=f"/sys/class/net/{address.interface}",
            name=f"{interface} {address.address}/{address.prefix}",
            read_system_devices=read_system_interfaces,
            cached_values={**asdict(address), "interface": interface},
        )


def _filters(resource: Resource) -> EventFilters:
    """Events of the addresses that the resource may count, according to their networks and interfaces, and of the
    interfaces that the resource names."""
    interfaces: set[str] = set()
    addresses = []
    for table in resource.tables:
        interfaces |= {*table.globs("interface")}
        # Every pod has addresses with the scopes link and host. Their events matter only to a table that counts them.
        link_local = table.may_match("scope", "link") or table.may_match("scope", "host")
        addresses += [
            AddressPattern(network=network, interface=interface, link_local=link_local)
            for network in table.networks("address")
            for interface in table.globs("interface")
        ]
    # For any interface ("*"), events of links are not needed: the addresses of a removed link have events of their own.
    named = tuple(Pattern(name=interface) for interface in sorted(interfaces - {"*"}))
    # software: the links without hardware. Links with hardware always pass the filter.
    links = LinkFilter(software=named, system=resource.has_test("system"))
    return EventFilters(links=links, addresses=tuple(addresses))


DETECTOR = DeviceDetector(
    name="address",
    about="IP addresses of the machine's interfaces that others can reach",
    find=find,
    keys={
        "interface": Key(
            Text(rejects=NOT_AN_INTERFACE),
            cached_reader("interface"),
            "the interface, such as eth0; interfaces for containers also have addresses (docker0, kube-ipvs0)",
        ),
        "family": Key(Choice(("ipv4", "ipv6")), cached_reader("family"), "ipv4 or ipv6"),
        "address": Key(
            Network(), cached_reader("address"), 'the address, or a network that contains it: "192.0.2.0/24"'
        ),
        "scope": Key(
            Choice(("global", "site", "link", "host")),
            cached_reader("scope"),
            "the scope; private addresses are also global",
        ),
        "temporary": Key(Flag(), cached_reader("temporary"), "whether it is a temporary IPv6 address (RFC 8981)"),
        "system": Key(Flag(), is_system, "whether the interface carries the default route"),
    },
    identifying_keys=("interface", "address"),
    model_keys=("interface", "family"),
    defaults={"scope": "global", "temporary": False},
    kernel_events=frozenset({KernelEvents.LINKS, KernelEvents.ADDRESSES}),
    filters=_filters,
    suggested_only_if={"system": False},
    shown_by_default=False,
)

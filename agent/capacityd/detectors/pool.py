"""pool: the number of addresses that a range provides for pods. Addresses in use count as well, because the scheduler
subtracts what pods use."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from capacityd.model.host import Host
from capacityd.model.reading import Contribution
from capacityd.schema.address_ranges import ADDRESS_RANGES, NETWORKS, parsed_networks
from capacityd.schema.device import ValueDetector
from capacityd.schema.matchers import IPNetwork
from capacityd.schema.setting_types import Setting


def read(_: Host, settings: Mapping[str, object]) -> Contribution:
    """The number of addresses for pods, and a note with the number of excepted addresses."""
    networks = parsed_networks(settings["cidr"])
    remaining = number(settings)
    excepted_count = _count_addresses(_usable_parts_of_all(networks)) - remaining
    note = f"{excepted_count} excepted" if excepted_count else ""
    return Contribution(device=", ".join(map(str, networks)), amount=remaining, note=note)


def number(settings: Mapping[str, object]) -> int:
    """The number of usable addresses in all networks, without excepted addresses. Each address counts once."""
    usable = _usable_parts_of_all(parsed_networks(settings["cidr"]))
    excepted = parsed_networks(settings["except"])
    # Both counts contain the excepted addresses that are in no network, so these change nothing.
    return _count_addresses([*usable, *excepted]) - _count_addresses(excepted)


def _usable_parts_of_all(networks: Iterable[IPNetwork]) -> list[IPNetwork]:
    """The usable addresses of these networks, as networks that may overlap."""
    return [part for network in networks for part in _usable_parts(network)]


def _usable_parts(network: IPNetwork) -> Iterable[IPNetwork]:
    """The usable addresses of one network, as networks.

    Not usable are the first address (the network address or, for IPv6, the subnet-router anycast address) and, for
    IPv4, the last one (the broadcast address). In a network of one or two addresses, all are usable (RFC 3021, RFC
    6164).
    """
    if network.num_addresses <= 2:
        return [network]
    has_broadcast = network.version == 4
    last = network.broadcast_address - 1 if has_broadcast else network.broadcast_address
    return ipaddress.summarize_address_range(network.network_address + 1, last)


def _count_addresses(networks: Sequence[IPNetwork]) -> int:
    """The number of distinct addresses in the networks."""
    # collapse_addresses() takes only networks of one version.
    ipv4 = ipaddress.collapse_addresses(network for network in networks if isinstance(network, ipaddress.IPv4Network))
    ipv6 = ipaddress.collapse_addresses(network for network in networks if isinstance(network, ipaddress.IPv6Network))
    distinct: list[IPNetwork] = [*ipv4, *ipv6]
    return sum(network.num_addresses for network in distinct)


DETECTOR = ValueDetector(
    name="pool",
    about="addresses of a range for pods, without those that other machines or programs use",
    settings={
        "cidr": Setting(
            NETWORKS,
            'the network, such as "192.0.2.0/24", or several; network and broadcast addresses do not count',
            required=True,
        ),
        "except": Setting(
            ADDRESS_RANGES, 'addresses, networks and ranges such as "192.0.2.1-192.0.2.9" that do not count'
        ),
    },
    read=read,
    computed=number,
)

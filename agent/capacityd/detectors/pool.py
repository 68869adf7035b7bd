"""pool: the number of addresses that a range provides for pods, in use or not: the scheduler subtracts the used
ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from capacityd.model.address_ranges import AddressRanges
from capacityd.model.device import ValueDetector
from capacityd.model.host import Host
from capacityd.model.matchers import IPNetwork
from capacityd.model.reading import Contribution
from capacityd.model.setting_types import Setting


def read(_: Host, settings: Mapping[str, object]) -> Contribution:
    """The number of addresses in all networks, each counted once, without the excluded ones."""
    networks = _ranges(settings, "cidr")
    remaining = number(settings)
    excluded = _size([part for network in networks for part in _usable(network)]) - remaining
    return Contribution(", ".join(map(str, networks)), remaining, f"{excluded} excepted" if excluded else "")


def number(settings: Mapping[str, object]) -> int:
    """The number of addresses, as in read()."""
    usable = [part for network in _ranges(settings, "cidr") for part in _usable(network)]
    excepted = _ranges(settings, "except")
    return _size([*usable, *excepted]) - _size(excepted)


def _ranges(settings: Mapping[str, object], key: str) -> tuple[IPNetwork, ...]:
    texts = cast("tuple[str, ...]", settings[key] or ())
    return tuple(map(ipaddress.ip_network, texts))


def _usable(network: IPNetwork) -> Iterable[IPNetwork]:
    """The network without its network address (IPv6: the subnet-router anycast address) and its broadcast address.

    A network of one or two addresses has neither (RFC 3021, RFC 6164).
    """
    if network.num_addresses <= 2:
        return [network]
    last = network.broadcast_address - (network.version == 4)
    return ipaddress.summarize_address_range(network.network_address + 1, last)


def _size(networks: Sequence[IPNetwork]) -> int:
    """The number of distinct addresses in the networks."""
    ipv4 = ipaddress.collapse_addresses(n for n in networks if isinstance(n, ipaddress.IPv4Network))
    ipv6 = ipaddress.collapse_addresses(n for n in networks if isinstance(n, ipaddress.IPv6Network))
    distinct: list[IPNetwork] = [*ipv4, *ipv6]
    return sum(n.num_addresses for n in distinct)


DETECTOR = ValueDetector(
    name="pool",
    about="addresses of a range for pods, without those that other machines or programs use",
    settings={
        "cidr": Setting(
            AddressRanges(networks=True),
            'the network, such as "192.0.2.0/24", or several; network and broadcast addresses do not count',
            required=True,
        ),
        "except": Setting(
            AddressRanges(), 'addresses, networks and ranges such as "192.0.2.1-192.0.2.9" that do not count'
        ),
    },
    read=read,
    computed=number,
)

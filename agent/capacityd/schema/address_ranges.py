"""Ranges of IP addresses: networks in CIDR notation, single addresses, and ranges from a first to a last address."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import cast

from capacityd.schema.matchers import IPNetwork, parse_network
from capacityd.schema.setting_types import SettingType
from capacityd.schema.toml_values import parse_texts


def parsed_networks(texts: object) -> tuple[IPNetwork, ...]:
    """The networks of a setting of type NETWORKS or ADDRESS_RANGES. texts: the parsed value, or None."""
    if texts is None:
        return ()
    return tuple(ipaddress.ip_network(text) for text in cast("tuple[str, ...]", texts))


def _parse_networks(raw: object) -> tuple[str, ...]:
    texts = parse_texts(raw, 'a network such as "192.0.2.0/24"')
    return tuple(str(_parse_cidr(text)) for text in texts)


def _parse_ranges(raw: object) -> tuple[str, ...]:
    texts = parse_texts(raw, 'an address, a network or a range such as "192.0.2.1-192.0.2.9"')
    networks = [network for text in texts for network in _networks_of_range(text)]
    return tuple(map(str, networks))


NETWORKS = SettingType("addresses", _parse_networks)
"""One or several networks in CIDR notation. The parsed value is a tuple of texts."""
ADDRESS_RANGES = SettingType("addresses", _parse_ranges)
"""Networks in CIDR notation, single addresses and ranges. The parsed value is a tuple of networks as texts."""


def _parse_cidr(text: str) -> IPNetwork:
    """Parses a network in CIDR notation. Raises ValueError for an address or a range."""
    if "-" in text:
        raise ValueError(
            f'"{text}" is not a network; write a network that contains it, and "except" for the rest of the network'
        )
    if "/" not in text:
        raise ValueError(f'"{text}" is not a network; write it like "192.0.2.0/24"')
    return parse_network(text.strip())


def _networks_of_range(text: str) -> Sequence[IPNetwork]:
    """The networks that together contain exactly the addresses of a range, a network or an address."""
    if "-" not in text or "%" in text:  # parse_network() explains what is wrong with a "%"
        return [parse_network(text.strip())]
    lowest, _, highest = text.partition("-")
    try:
        first = ipaddress.ip_address(lowest.strip())
        last = ipaddress.ip_address(highest.strip())
        return list(ipaddress.summarize_address_range(first, last))
    except (ValueError, TypeError):  # TypeError: one address is IPv4, the other IPv6
        message = f'"{text}" is not a range; write it like "192.0.2.1-192.0.2.9", the lower address first'
        raise ValueError(message) from None

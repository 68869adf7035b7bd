"""Ranges of IP addresses: networks in CIDR notation, single addresses, and ranges from a first to a last address."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from capacityd.schema.matchers import IPNetwork, parse_network
from capacityd.schema.toml_values import Schema, describe_toml_value, texts_schema


def parsed_networks(texts: object) -> tuple[IPNetwork, ...]:
    """The networks of a setting of type AddressRanges. texts: what parse() returned; None: the setting is missing."""
    if texts is None:
        return ()
    return tuple(ipaddress.ip_network(text) for text in cast("tuple[str, ...]", texts))


@dataclass(frozen=True, slots=True)
class AddressRanges:
    """IP addresses: networks in CIDR notation, single addresses and ranges; parsed into the texts of networks."""

    only_networks: bool = False
    """Whether single addresses and ranges are errors."""

    def parse(self, raw: object) -> tuple[str, ...]:
        items = raw if isinstance(raw, list) else [raw]
        if not items:
            raise ValueError("must not be an empty list")
        return tuple(str(network) for item in items for network in self._networks(item))

    def _networks(self, raw: object) -> Iterable[IPNetwork]:
        example = "192.0.2.0/24" if self.only_networks else "192.0.2.1-192.0.2.9"
        if not isinstance(raw, str):
            raise ValueError(f'must be text such as "{example}", or a list of texts; got {describe_toml_value(raw)}')
        if self.only_networks and "-" in raw:
            raise ValueError(
                f'"{raw}" is not a network; write a network that contains it, and "except" for the rest of the network'
            )
        if self.only_networks and "/" not in raw:
            raise ValueError(f'"{raw}" is not a network; write it like "{example}"')
        lowest, dash, highest = raw.partition("-")
        if not dash or "%" in raw:  # parse_network() explains what is wrong with a "%"
            return [parse_network(raw.strip())]
        try:
            first = ipaddress.ip_address(lowest.strip())
            last = ipaddress.ip_address(highest.strip())
            return [*ipaddress.summarize_address_range(first, last)]
        except (ValueError, TypeError):  # TypeError: one is of IPv4, the other of IPv6
            message = f'"{raw}" is not a range; write it like "192.0.2.1-192.0.2.9", the lower address first'
            raise ValueError(message) from None

    def schema(self) -> Schema:
        network = "^[^%-]*/[^%-]*$"  # neither an interface nor a range
        not_with_interface = "^[^%]*$"
        return texts_schema({"pattern": network if self.only_networks else not_with_interface})

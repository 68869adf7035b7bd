"""Ranges of IP addresses: networks in CIDR notation, single addresses, and ranges from a first to a last address."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.matchers import parse_network
from capacityd.model.toml_values import Schema, describe_toml_value, texts_schema


@dataclass(frozen=True, slots=True)
class AddressRange:
    """IP addresses from a first to a last one."""

    text: str
    """The range as written in the configuration."""
    bits: int
    """32 (IPv4) or 128 (IPv6)."""
    first: int
    last: int

    def usable(self) -> AddressRange:
        """The range without the network address (IPv6: the subnet-router anycast address) and the broadcast address.

        A network of one or two addresses has neither (RFC 3021, RFC 6164).
        """
        if self.last - self.first < 2:
            return self
        return AddressRange(self.text, self.bits, self.first + 1, self.last - (self.bits == 32))


@dataclass(frozen=True, slots=True)
class AddressRanges:
    """IP addresses: networks in CIDR notation, single addresses and ranges."""

    networks: bool = False
    """Whether only networks are allowed."""

    def parse(self, raw: object) -> tuple[AddressRange, ...]:
        items = raw if isinstance(raw, list) else [raw]
        if not items:
            raise ValueError("must not be an empty list")
        return tuple(self._range(item) for item in items)

    def _range(self, raw: object) -> AddressRange:
        example = "192.0.2.0/24" if self.networks else "192.0.2.1-192.0.2.9"
        if not isinstance(raw, str):
            raise ValueError(f'must be text such as "{example}", or a list of texts; got {describe_toml_value(raw)}')
        if self.networks and "/" not in raw:
            raise ValueError(f'"{raw}" is not a network; write it like "{example}"')
        first, dash, last = raw.partition("-")
        begin, end = parse_network(first.strip()), parse_network(last.strip()) if dash else None
        if end is None:
            return AddressRange(raw, *begin)
        if begin[0] != end[0] or begin[1] > end[1] or "/" in raw:
            raise ValueError(f'"{raw}" is not a range; write it like "192.0.2.1-192.0.2.9", the lower address first')
        return AddressRange(raw, begin[0], begin[1], end[2])

    def schema(self) -> Schema:
        return texts_schema({"pattern": "/"} if self.networks else {})

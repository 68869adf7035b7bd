"""The kinds of interfaces, the interfaces that they use, and their addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from capacityd.host.ip import Json, ip, ip_errors
from capacityd.model.host import Address
from capacityd.model.text import printable

_SCOPES = {"0": "global", "200": "site", "253": "link", "254": "host"}
_FAMILIES = {"inet": "ipv4", "inet6": "ipv6"}


@dataclass(frozen=True, slots=True)
class Link:
    """An interface."""

    kind: str
    """The kind that "ip -details link" shows: team, macvlan, …; "" for hardware."""
    linked_interface: str
    """The interface that a tunnel is bound to, or the other end of a veth pair; "" if there is none in this network
    namespace."""


def links() -> Mapping[str, Link]:
    """All interfaces by name. Raises HostError."""
    with ip_errors("the interfaces"):
        return {link["ifname"]: _link(link) for link in ip("link", "show")}


def _link(link: Json) -> Link:
    kind = link.get("linkinfo", {}).get("info_kind", "")
    return Link(kind=printable(kind), linked_interface=link.get("link") or "")


def addresses() -> list[Address]:
    """All addresses, sorted, without addresses that another machine on the link already uses. Raises HostError."""
    with ip_errors("the addresses of interfaces"):
        found = [*_addresses()]
    return sorted(found, key=lambda address: (address.interface, address.family, address.address))


def _addresses() -> Iterator[Address]:
    """Yields the addresses in the kernel's order; for a point-to-point link, the address of the local end."""
    for link in ip("address", "show"):
        for address in link["addr_info"]:
            if address["family"] not in _FAMILIES or address.get("dadfailed"):
                continue
            yield Address(
                interface=link["ifname"],
                family=_FAMILIES[address["family"]],
                address=address["local"],
                prefix=address["prefixlen"],
                scope=_SCOPES.get(address["scope"], address["scope"]),
                temporary=bool(address.get("temporary")),
            )

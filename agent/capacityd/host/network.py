"""What the kernel knows about interfaces, addresses and routes, from ip(8) in JSON."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from capacityd.host.program import run
from capacityd.model.errors import HostError
from capacityd.model.host import Address
from capacityd.model.quoting import quoted
from capacityd.model.text import printable

Json = Mapping[str, Any]

_IP = ("/bin/ip", "-json", "-details", "-Numeric")
_TIMEOUT = 10.0  # seconds
_MAX_BYTES = 64 * 1024 * 1024
"""Largest output. A link needs about 1,500 bytes, and a route 130, so this is enough for 40,000 links or half a million
routes."""
_INTERRUPTED = b"Dump was interrupted"
"""What ip writes to standard error if a list has changed while the kernel sent it (rtnl_dump_filter_l in iproute2's
lib/libnetlink.c). The exit status of ip is 0 nevertheless."""
_NOT_SUPPORTED = (os.strerror(errno.EOPNOTSUPP).encode(), os.strerror(errno.EAFNOSUPPORT).encode())
"""What ip writes to standard error if the kernel lacks a feature, such as policy rules, or an address family."""
_ATTEMPTS = 5
"""How many times ip is run at most. It is run again if the list changed while the kernel sent it."""

_SCOPES = {"0": "global", "200": "site", "253": "link", "254": "host"}  # ip prints the numbers because of -Numeric
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
        found = list(_addresses())
    return sorted(found, key=lambda address: (address.interface, address.family, address.address))


def _addresses() -> Iterator[Address]:
    """Yields the addresses in the kernel's order. On a point-to-point link, "local" is the address of this machine."""
    for link in ip("address", "show"):
        for address in link["addr_info"]:
            if address["family"] not in _FAMILIES:
                continue
            if address.get("dadfailed"):  # another machine on the link uses the address
                continue
            yield Address(
                interface=link["ifname"],
                family=_FAMILIES[address["family"]],
                address=address["local"],
                prefix=address["prefixlen"],
                scope=_SCOPES.get(address["scope"], address["scope"]),
                temporary=bool(address.get("temporary")),
            )


def ip(*arguments: str) -> Sequence[Json]:
    """The objects that ip prints, in the kernel's order.

    Raises HostError, with EOPNOTSUPP if the kernel lacks the feature. Raises ValueError for unexpected output.
    """
    for _ in range(_ATTEMPTS):
        status, out, err = run([*_IP, *arguments], _TIMEOUT, max_output=_MAX_BYTES)
        if status != 0:
            is_unsupported = any(text in err for text in _NOT_SUPPORTED)
            code = errno.EOPNOTSUPP if is_unsupported else None
            detail = f"standard error: {quoted(printable(err.strip()))}"
            raise HostError(f"{_IP[0]} exited with status {status}", code, detail=detail)
        if _INTERRUPTED not in err:
            # The name of an interface may have any bytes but "/" and white space, so also control characters, which
            # strict=False allows. ip may print nothing for an empty list.
            text = out.decode("utf-8", "surrogateescape") or "[]"
            objects = json.loads(text, strict=False, object_pairs_hook=_first_values)
            return [printed for printed in objects if printed]  # ip prints {} for an object that a filter leaves out
    raise HostError(f"they changed during {_ATTEMPTS} attempts")


def _first_values(pairs: Sequence[tuple[str, Any]]) -> Json:
    """A JSON object with the first value of each key. ip prints the destination of a route, and then the destination of
    the route's encapsulation with the same key."""
    return dict(reversed(pairs))  # dict() keeps the last value of a key


@contextmanager
def ip_errors(subject: str) -> Iterator[None]:
    """Adds to each HostError's message that the subject could not be read. Raises HostError for unexpected output.

    subject: what ip lists, in the plural.
    """
    problem = f"{subject} could not be read"
    try:
        yield
    except HostError as e:
        raise e.with_message(f"{problem}: {e}") from e
    except (LookupError, TypeError, ValueError, AttributeError) as e:
        raise HostError(f"{problem}: unexpected output of {_IP[0]}", detail=printable(str(e))) from e

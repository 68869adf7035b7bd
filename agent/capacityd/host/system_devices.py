"""The interfaces that carry the machine's default route, and those below them.

Nothing is guessed: if the underlying hardware is unknown, the result says that it may be incomplete
(SystemDevices.incomplete_because). Otherwise, pods could get an interface that the machine needs.
"""

from __future__ import annotations

from capacityd.model.errors import HostError
from capacityd.model.host import Host, SystemDevices, resolve_link

_NETS = "/sys/class/net"


def system_interfaces(host: Host) -> SystemDevices:
    """The interfaces that carry a default route, and those below: members of bonds and bridges, parents of VLANs."""
    names: set[str] = set()
    try:
        routes = host.default_interfaces()
        # At boot, the route may appear later. Until then, a "no" would count the system's own link.
        reason = "" if routes else "cannot determine the system's interface: no default route"
        for route in routes:
            interfaces = _interfaces_below(host, route)
            names.update(interfaces)
            if not any(resolve_link(host, f"{_NETS}/{name}/device") for name in interfaces):
                # A tunnel's packets leave through another interface.
                reason = reason or f"cannot determine the system's interface: default route through {route}"
    except HostError as e:
        reason = f"cannot determine the system's interfaces: {e}"
    return SystemDevices(frozenset(names), reason)


def _interfaces_below(host: Host, name: str) -> list[str]:
    """An interface and all interfaces below it. Raises HostError."""
    names: dict[str, None] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names[name] = None
            waiting += [n.removeprefix("lower_") for n in host.listdir(f"{_NETS}/{name}") if n.startswith("lower_")]
    return [*names]

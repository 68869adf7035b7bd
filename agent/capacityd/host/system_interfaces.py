"""The network interfaces that the operating system depends on: those by which the packets of default routes leave.

If the hardware below a route can't be determined, the result says that it may be incomplete
(SystemDevices.incomplete_because). A guess could give pods a port that the machine needs.

The packets of some interfaces leave by another interface. Where the kernel shows the other interface:

- lower_* in /sys (netdev_upper_dev_link): bond, team, bridge, VLAN, macvlan, ipvlan, MACsec, VRF, a port of an internal
  switch (DSA), HSR, batman-adv, rmnet, VXLAN with a device, Hyper-V's netvsc, and virtio's failover
- iflink in /sys and IFLA_LINK (ndo_get_iflink): a child of an IPoIB interface, a tunnel that is bound to a device
  (GRE, IPIP, SIT, VTI, ip6tnl), an XFRM interface, and a veth pair, whose other end may be a port of a bridge
- lower_* of a datapath of Open vSwitch, such as ovs-system: an internal port (kind "openvswitch"), whose packets may
  leave by any port of its datapath
- device/physfn in /sys: a virtual function
- the PCI function above the device in /sys: a subfunction, and vDPA

The kernel does not show by which interface the packets leave a tunnel that is bound to no device (WireGuard, L2TP,
Geneve, PPP, TUN), or an interface whose other end is in another network namespace.
"""

from __future__ import annotations

from collections.abc import Iterator

from capacityd.model.errors import HostError
from capacityd.model.host import Host, SystemDevices, device_and_above, link_name, resolve_link

_NETS = "/sys/class/net"


def system_interfaces(host: Host) -> SystemDevices:
    """The interfaces that carry a default route, and all interfaces by which their packets may leave."""
    names: set[str] = set()
    try:
        route_interfaces = host.default_interfaces()
    except HostError as e:
        return SystemDevices(frozenset(), incomplete_because=f"cannot determine the system's interfaces: {e}")
    # At boot, the default route may appear later. Until then, it would be a guess that the system needs no interface.
    reason = "" if route_interfaces else "cannot determine the system's interface: no default route"
    for route_interface in route_interfaces:
        problem = f"cannot determine the system's interface: default route through {route_interface}"
        try:
            below = set()
            for name in _interfaces_below(host, route_interface):
                below.add(name)
                names.add(name)  # interfaces found before an error also count
            has_hardware = any(_hardware(host, name) for name in below)
            if not has_hardware:
                reason = reason or problem  # only the first reason is reported
        except HostError as e:
            reason = reason or f"{problem}: {e}"
    return SystemDevices(frozenset(names), incomplete_because=reason)


def lower_interfaces(host: Host, name: str) -> list[str]:
    """The interfaces directly below a bond, bridge, VLAN or other upper interface. Raises HostError."""
    lower_links = [entry for entry in host.listdir(f"{_NETS}/{name}") if entry.startswith("lower_")]
    return [link.removeprefix("lower_") for link in lower_links]


def linked_ifindex(host: Host, name: str) -> str:
    """The ifindex of the other interface that an interface uses (iflink); "" if it uses none. Raises HostError.

    The other interface may be in another network namespace.
    """
    ifindex = host.text(f"{_NETS}/{name}/iflink")
    if ifindex is None or ifindex == host.text(f"{_NETS}/{name}/ifindex"):
        return ""
    return ifindex


def _hardware(host: Host, name: str) -> str | None:
    """The path of an interface's hardware device; None for a software interface."""
    return resolve_link(host, f"{_NETS}/{name}/device")


def _interfaces_below(host: Host, name: str) -> Iterator[str]:
    """Yields an interface and all interfaces by which its packets may leave.

    Raises HostError after yielding some of them.
    """
    found: set[str] = set()
    unvisited = [name]
    while unvisited:
        while unvisited:
            current = unvisited.pop()
            if current not in found:
                found.add(current)
                yield current
                unvisited += lower_interfaces(host, current)
                unvisited += _interfaces_sharing_hardware(host, current)
        if any(_hardware(host, interface) for interface in found):
            return
        # Only software interfaces have been found, so the search follows their other links, such as a veth pair.
        for interface in found:
            unvisited += [other for other in _linked_interfaces(host, interface) if other not in found]


def _linked_interfaces(host: Host, name: str) -> list[str]:
    """The interfaces by which packets leave a software interface, except those directly below it."""
    if linked_ifindex(host, name):
        linked = host.linked_interface(name)
        if not linked:  # the linked interface is in another network namespace
            return []
        return [linked, *_members_of_master(host, linked)]
    ports: list[str] = []
    if host.link_kind(name) == "openvswitch":
        # /sys does not show the datapath of this interface, so the ports of all datapaths count.
        for other in host.listdir(_NETS):
            ports += _ports_of_datapath(host, other)
    return ports


def _members_of_master(host: Host, name: str) -> list[str]:
    """All members of the bond or bridge that an interface belongs to; empty if it belongs to none.

    Packets that enter by one member leave by the others.
    """
    master = link_name(host, f"{_NETS}/{name}/master")
    return lower_interfaces(host, master) if master else []


def _ports_of_datapath(host: Host, name: str) -> list[str]:
    """The ports of a datapath of Open vSwitch, if this is the datapath's own interface; otherwise empty."""
    ports = lower_interfaces(host, name)
    if ports and host.link_kind(name) == "openvswitch":
        return ports
    return []


def _interfaces_sharing_hardware(host: Host, name: str) -> Iterator[str]:
    """Yields the parent of an IPoIB child, and the interfaces of the PCI functions that an interface uses."""
    hardware = _hardware(host, name)
    if hardware is None:
        return
    if parent_ifindex := linked_ifindex(host, name):
        for other in host.listdir(_NETS):
            ifindex = host.text(f"{_NETS}/{other}/ifindex")
            # An interface of another network namespace may have the same ifindex, but not the same hardware.
            if ifindex == parent_ifindex and _hardware(host, other) == hardware:
                yield other
    for other in _interfaces_of_functions_above(host, hardware):
        yield other
        yield from _members_of_master(host, other)


def _interfaces_of_function(host: Host, function: str) -> Iterator[str]:
    """Yields the interfaces of a PCI function. A virtio interface is one folder deeper."""
    yield from host.listdir(f"{function}/net")
    for name in host.listdir(function):
        if name.startswith("virtio"):
            yield from host.listdir(f"{function}/{name}/net")


def _interfaces_of_functions_above(host: Host, hardware: str) -> Iterator[str]:
    """Yields the interfaces of the PCI functions above a device. A virtual function's physical function also counts."""
    for path in device_and_above(hardware):
        if resolve_link(host, f"{path}/physfn"):
            yield from _interfaces_of_function(host, f"{path}/physfn")
        if path != hardware and link_name(host, f"{path}/subsystem") == "pci":
            yield from host.listdir(f"{path}/net")

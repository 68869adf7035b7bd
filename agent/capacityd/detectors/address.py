"""address: the IP addresses that interfaces have. How many a range has, whoever uses them, is the detector pool's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from capacityd.host import Host, System
from capacityd.host.system import system_interfaces
from capacityd.kinds import Choice, Flag, Network, Text
from capacityd.model import Device, DeviceDetector, Key, Value


def find(host: Host) -> Iterator[Device]:
    """All addresses, each as a device at the place of its interface."""

    @cache
    def system() -> System:
        return system_interfaces(host)

    for found in host.addresses():
        said: dict[str, Value] = {
            "interface": found.interface,
            "family": found.family,
            "address": found.address,
            "scope": found.scope,
            "temporary": found.temporary,
        }
        name = f"{found.interface} {found.address}/{found.prefix}"
        yield Device(f"/sys/class/net/{found.interface}", name, system, said)


def _said(key: str) -> Callable[[Host, Device], Value]:
    return lambda _, device: device.said[key]


def _is_system(_: Host, device: Device) -> Value:
    return device.system().has(str(device.said["interface"])) if device.system else None


DETECTOR = DeviceDetector(
    name="address",
    about="IP addresses of the machine's interfaces that others can reach",
    find=find,
    keys={
        "interface": Key(
            Text(),
            _said("interface"),
            "the interface that has it, such as eth0; those of containers have some, too (docker0, kube-ipvs0)",
        ),
        "family": Key(Choice(("ipv4", "ipv6")), _said("family"), "ipv4 or ipv6"),
        "address": Key(Network(), _said("address"), 'the address, or a network that it is in: "192.0.2.0/24"'),
        "scope": Key(
            Choice(("global", "site", "link", "host")),
            _said("scope"),
            "how far it reaches; global are private ones too. New ones of scope link are found at a re-check only",
        ),
        "temporary": Key(Flag(), _said("temporary"), "whether it is one of IPv6's that change for privacy"),
        "system": Key(Flag(), _is_system, "whether its interface carries the default route"),
    },
    identity=("interface", "address"),
    alike=("interface", "family"),
    defaults={"scope": "global", "temporary": False},
    links=True,
    addresses=True,
    suggest={"system": False},
    listed=False,
)

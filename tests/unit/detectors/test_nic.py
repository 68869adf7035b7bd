"""The kinds of network interfaces, their speeds, and which interfaces are the system's."""

from __future__ import annotations

from typing import Any

import pytest

from capacityd.model.errors import Cause
from capacityd.model.reading import Unknown
from tests.support.machines import (
    Recording,
    errors,
    files,
    machine,
    merge,
    nic,
    pci_function,
    pci_nic,
    pci_path,
    routes,
    usb_device,
    usb_nic,
    usb_path,
    virtio_nic,
)
from tests.support.readings import counted, outcome, quantity, read, values
from tests.support.trees import Tree

GBIT = 10**9
MBITS = "Mbit/s"
E0 = pci_nic("eth0", "0000:01:00.0", speed="10000")
E1 = pci_nic("eth1", "0000:01:00.1", speed="10000", number=3)
SLOW = pci_nic("eno1", "0000:02:00.0", link_speeds=[10**7, 10**8, GBIT], number=4)
ETH0 = f"{pci_path('0000:01:00.0')}/net/eth0"


def bond(mode: str, *members: str, speed: str | None = "20000") -> Recording:
    return nic("bond0", bond=(mode, members), speed=speed, number=9)


def attribute(name: str, text: str) -> Recording:
    """A PCI card with an extra attribute."""
    return pci_nic(attributes={name: f"{text}\n"})


def usb_gadget(vendor: str, product: str, maker: str | None = None) -> Recording:
    """A USB network adapter with the driver of a gadget, such as the one of a BMC."""
    adapter = usb_device("1-3", vendor, product, None, maker, "usbnet", interfaces=[("020600", "cdc_ether")])
    return merge(adapter, nic("eth0", f"{usb_path('1-3')}/1-3:1.0", link_speeds=[]))


def hardware(path: str, bus: str, driver: str | None = None) -> Recording:
    """A device on a bus."""
    tree = Tree()
    tree.device(path, bus, driver, [])
    return tree.recording()


def below(path: str, bus: str, driver: str | None = None, name: str = "eth0", **more: Any) -> Recording:
    """An interface of a device on a bus. more: further arguments of nic()."""
    return merge(hardware(path, bus, driver), nic(name, path, **more))


def on_bus(bus: str, **more: Any) -> Recording:
    """The interface eth0 of a device without a driver on a bus."""
    return below(f"/sys/devices/{bus}-0", bus, **more)


def vdpa(parent: str, at: str = "", driver: str = "mlx5_core", name: str = "eth0", **more: Any) -> Recording:
    """A virtio interface of a network card: virtio_vdpa. at: devices between the card's function and virtio."""
    above = f"{pci_path(parent)}{at}"
    interface = below(f"{above}/virtio4", "virtio", "virtio_net", name, speed="-1", number=8)
    between = hardware(above, "vdpa", "virtio_vdpa") if at else {}
    return merge(pci_function(parent, driver=driver, **more), between, interface)


def simulated_vdpa() -> Recording:
    """A virtio interface of the kernel's vDPA simulator."""
    interface = below("/sys/devices/vdpa7/virtio4", "virtio", "virtio_net", speed="-1")
    return merge(hardware("/sys/devices/vdpa7", "vdpa", "virtio_vdpa"), interface)


def child(name: str, number: int, parent: int, **more: Any) -> Recording:
    """A child of an IPoIB interface of the PCI card 0000:01:00.0. number, parent: the numbers of both interfaces."""
    return nic(name, pci_path("0000:01:00.0"), number=number, attributes={"iflink": f"{parent}\n", **IB}, **more)


IB = {"type": "32\n"}
PF = pci_nic("pf0", "0000:02:00.0", number=7)
SF_OF_E0 = f"{pci_path('0000:01:00.0')}/mlx5_core.sf.4"
VMBUS = "/sys/devices/LNXSYSTM:00/ACPI0004:00/VMBUS:00/000d3a"
KINDS: list[tuple[str, Recording]] = [  # the kind of the interface eth0, and the machine
    ("physical", E0),
    ("physical", virtio_nic()),
    ("physical", usb_nic("eth0")),
    ("physical", nic("eth0", "/sys/devices/vif-0")),  # without a bus
    ("physical", nic("eth0", "/sys/devices/vif-0", lower=["eth1"])),
    *(("physical", on_bus(bus)) for bus in ("xen", "vmbus", "vio", "fsl-mc", "mdio_bus", "platform")),
    ("physical", nic("eth0", "/sys/devices/platform/soc", devtype="dsa", attributes={"iflink": "9\n"})),
    ("physical", merge(pci_nic(master="bond0"), bond("802.3ad", "eth0"))),
    ("physical", vdpa("0000:02:00.0", driver="virtio-pci")),  # not vDPA: a card of the hypervisor
    ("physical", usb_gadget("1d6b", "0103", "Raspberry Pi")),
    *(("physical", attribute("phys_port_name", port)) for port in ("p0", "p0s1", "")),
    *(("physical", merge(E0, errors({f"{ETH0}/phys_port_name": code}))) for code in ("EOPNOTSUPP", "EINVAL")),
    ("virtual", nic("eth0", operstate="unknown")),
    ("virtual", nic("eth0", devtype="vxlan")),
    ("virtual", nic("eth0", devtype="macvlan", lower=["eth1"])),
    ("virtual", nic("eth0", lower=["eth1"], link_kind="ipvlan")),
    ("virtual", merge(pci_nic("ib0", attributes=IB, number=5), child("eth0", number=6, parent=5))),
    ("virtual", simulated_vdpa()),
    ("virtual", nic("eth0", "/sys/devices/virtual/mac80211_hwsim/hwsim0", devtype="wlan")),
    *(("virtual", on_bus(bus)) for bus in ("xen-backend", "netdevsim")),
    ("team", nic("eth0", lower=["eth1"], link_kind="team")),
    ("bridge", nic("eth0", devtype="bridge")),
    ("vlan", nic("eth0", devtype="vlan", lower=["eth1"])),
    ("bond", nic("eth0", bond=("802.3ad", ["eth1", "eth2"]))),
    ("vf", merge(SLOW, vdpa("0000:02:00.3", physfn="0000:02:00.0"))),
    ("vf", merge(SLOW, vdpa("0000:02:00.3", "/vdpa0", physfn="0000:02:00.0"))),
    ("vf", vdpa("0000:02:00.0")),  # of the physical function itself
    ("vf", vdpa("0000:02:00.0", driver="vp-vdpa")),
    ("vf", merge(SLOW, pci_nic(physfn="0000:02:00.0"))),
    ("vf", merge(E0, nic("eth0", SF_OF_E0))),  # a sub-function
    ("vf", merge(pci_nic(master="eth9"), nic("eth9", VMBUS, lower=["eth0"]))),  # netvsc on Azure: no physfn
    *(("representor", attribute("phys_port_name", port)) for port in ("pf0vf1", "pf0hpf", "c12pf0sf88", "p0pf0vf1")),
    *(("wireless", pci_nic(devtype=devtype)) for devtype in ("bluetooth", "wlan", "wwan")),
    ("wireless", attribute("wireless/status", "0")),  # a driver older than cfg80211
    ("wireless", merge(pci_nic(), {"links": {f"{ETH0}/phy80211": "../.."}})),  # an old driver
    *(("bmc", usb_gadget(*ids)) for ids in (("413c", "a102"), ("03f0", "2927"), ("04b3", "4010"))),
    *(("bmc", usb_gadget(*ids)) for ids in (("046b", "ffb0"), ("0b1f", "03ee"))),
    ("bmc", usb_gadget("1d6b", "0103", "OpenBMC")),  # any Linux USB gadget has these ids
    *(("other", on_bus(bus)) for bus in ("gadget", "mhi", "most")),
    ("other", on_bus("platform", devtype="gadget")),  # before Linux 6.0
    *(("other", attribute("type", number)) for number in ("280", "24")),  # CAN, seen with a Kvaser card; FireWire
    ("other", attribute("dsa/tagging", "mtk")),
]


@pytest.mark.parametrize(("kind", "parts"), KINDS)
def test_each_interface_has_its_kind_and_only_physical_ones_count_by_default(kind: str, parts: Recording) -> None:
    host = machine(parts)
    assert values(host, "nic", "kind")["eth0"] == kind
    assert ("eth0" in counted(host, "nic")) == (kind == "physical")
    assert "eth0" in counted(host, "nic", {"kind": kind})


def test_an_interface_on_an_unknown_bus_may_be_a_port() -> None:
    host = machine(on_bus("newbus"))
    reading = read(host, "nic")
    assert isinstance(reading, Unknown)
    assert 'it is unknown whether a device of the bus "newbus" is a network port' in reading.reason
    assert counted(host, "nic", {"bus": "pci"}) == []
    assert counted(host, "nic", {"kind": ["vf", "virtual"]}) == []
    assert counted(machine(on_bus("newbus", attributes={"type": "280\n"})), "nic", {"kind": "other"}) == ["eth0"]


def test_bonding_masters_is_a_file_and_not_an_interface() -> None:
    assert values(machine(E0, files({"/sys/class/net/bonding_masters": "bond0\n"})), "nic", "name") == {"eth0": "eth0"}


def test_the_ports_of_an_internal_switch_count_and_its_conduit_does_not() -> None:
    """The conduit carries the traffic of all ports (Documentation/networking/dsa/dsa.rst in the kernel)."""
    soc = "/sys/devices/platform/soc/1b100000.ethernet"
    place = f"{soc}/mdio_bus/mdio-bus/mdio-bus:1f"
    ports = [nic(f"lan{n}", place, devtype="dsa", lower=["eth0"], link_speeds=[GBIT]) for n in range(4)]
    conduit = nic("eth0", soc, link_speeds=[25 * GBIT // 10], attributes={"dsa/tagging": "mtk\n"})
    host = machine(conduit, *ports, routes("lan0"))
    assert counted(host, "nic") == ["lan0", "lan1", "lan2", "lan3"]
    assert counted(host, "nic", {"kind": ["physical", "other"], "system": True}) == ["eth0", "lan0"]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (E0, ("pci", "i40e", "8086", "1572")),
        (usb_nic("eth0"), ("usb", "r8152", "0bda", "8153")),
        (virtio_nic(), ("virtio", "virtio_net", "1af4", "1041")),
        (nic("eth0"), (None, None, "", "")),
    ],
)
def test_an_interface_has_the_hardware_of_its_device(parts: Recording, expected: tuple[str | None, ...]) -> None:
    keys = ("bus", "driver", "vendor", "device")
    assert tuple(values(machine(parts), "nic", key)["eth0"] for key in keys) == expected


# Contents of the file speed that mean an unknown speed.
NO_SPEEDS = ("-1", "0", "-2", "65535", "2147483648", "4294967295", None)


@pytest.mark.parametrize(
    ("parts", "speed"),
    [
        *((pci_nic(speed=str(mbits)), mbits) for mbits in (10, 65534, 65536, 800_000)),  # some have more than 16 bits
        *((pci_nic(speed=text), "does not report its speed") for text in NO_SPEEDS),
        *((pci_nic(speed=text), "") for text in ("", "10000 Mb/s")),
        *((pci_nic(operstate=state, speed="25000"), "its link is down") for state in ("down", "dormant")),
        (merge(E0, errors({f"{ETH0}/speed": "EIO"})), "could not be read"),
        (virtio_nic(), "does not report its speed"),
        (nic("eth0", lower=["eth1"], link_kind="team", speed=None), "does not report its speed"),
    ],
)
def test_the_speed_is_a_number_or_unknown_for_a_reason(parts: Recording, speed: int | str) -> None:
    """speed: in Mbit/s, or the reason why it is unknown."""
    reading = read(machine(parts), "nic", {"kind": ["physical", "team"]}, measure="speed", unit=MBITS)
    if isinstance(speed, int):
        assert outcome(reading) == speed
    else:
        assert isinstance(reading, Unknown)
        assert reading.cause is Cause.NO_MEASURE
        assert speed in reading.reason


def test_speed_is_the_negotiated_one_and_max_speed_the_best_link_mode() -> None:
    """A 25G card with 10G optics (netdata#14803)."""
    modes = [GBIT, 10 * GBIT, 25 * GBIT]
    up, down = (pci_nic(link_speeds=modes, speed="10000", operstate=state) for state in ("up", "down"))
    assert quantity(machine(up), "nic", measure="speed", unit=MBITS) == 10_000
    for one in (up, down):
        assert quantity(machine(one), "nic", measure="max_speed", unit=MBITS) == 25_000
    assert counted(machine(E0, SLOW), "nic", {"max_speed": ">=10Gbit/s"}) == ["eth0"]
    assert counted(machine(E0, SLOW), "nic", {"max_speed": "<10Gbit/s"}) == ["eno1"]


def enic(name: str, **more: Any) -> Recording:
    """An interface whose driver names one link mode, of 10 Gbit/s. The link has another speed: 40 Gbit/s by default."""
    address = f"0000:0a:00.{name[-1]}"
    return pci_nic(name, address, link_speeds=[10 * GBIT], **{"speed": "40000", "number": int(name[-1]), **more})


@pytest.mark.parametrize(
    ("parts", "kind", "gigabits"),
    [
        ([enic("eth4")], "physical", 40),
        ([enic("eth4", speed="20000")], "physical", 20),
        ([enic("eth4", speed="1000")], "physical", 10),
        ([enic("eth4", operstate="down")], "physical", 10),
        ([enic("eth4", speed="-1")], "physical", 10),
        ([enic("eth4"), enic("eth5"), bond("802.3ad", "eth4", "eth5")], "bond", 80),
        ([enic("eth4"), enic("eth5"), bond("active-backup", "eth4", "eth5")], "bond", 40),
    ],
)
def test_the_max_speed_is_at_least_that_of_the_link(parts: list[Recording], kind: str, gigabits: int) -> None:
    assert quantity(machine(*parts), "nic", {"kind": kind}, measure="max_speed", unit=MBITS) == 1000 * gigabits


VLANS = [nic(f"eth{n}.7", devtype="vlan", lower=[f"eth{n}"], link_speeds=[10 * GBIT]) for n in (0, 1)]
NO_MODE = files({"/sys/devices/virtual/net/bond0/bonding/mode": "\n"})
TEAM = nic("team0", lower=["eth0"], link_kind="team", link_speeds=[10 * GBIT])


@pytest.mark.parametrize(
    ("parts", "gigabits"),  # eth0 and eth1 have 10 Gbit/s, eno1 has 1. None: the speed is unknown
    [
        ([bond("802.3ad", "eth0", "eno1")], 10),
        ([bond("802.3ad", "eth0", "eth1", "eno1")], 20),  # the interface of another speed is in an inactive aggregator
        ([*VLANS, bond("802.3ad", "eth0.7", "eth1.7")], 20),
        ([bond("balance-rr", "eth0", "eno1")], 11),
        ([bond("balance-alb", "eth0", "eno1")], 11),
        ([bond("active-backup", "eth0", "eno1")], 10),
        ([bond("broadcast", "eth0", "eno1")], 1),
        ([bond("802.3ad")], None),
        ([bond("802.3ad", "eth0", "eth9"), virtio_nic("eth9")], None),
        ([bond("balance-rr", "eth0"), NO_MODE], None),
        ([TEAM], None),
    ],
)
def test_the_max_speed_of_a_bond_is_that_of_its_active_members(parts: list[Recording], gigabits: int | None) -> None:
    host, kind = machine(E0, E1, SLOW, *parts), {"kind": ["bond", "team"]}
    reading = read(host, "nic", kind, measure="max_speed", unit=MBITS)
    assert isinstance(reading, Unknown) == (gigabits is None)
    mbits = quantity(host, "nic", kind, measure="max_speed", unit=MBITS, fallback=7 * GBIT)
    assert mbits == 1000 * (7 if gigabits is None else gigabits)


@pytest.mark.parametrize(
    ("state", "carrier", "link"),
    [
        ("up", "1", "up"),
        ("unknown", "1", "up"),
        ("unknown", "0", "down"),
        ("unknown", None, "down"),
        ("down", "0", "down"),
    ],
)
def test_the_link_is_up_if_the_interface_can_carry_packets(state: str, carrier: str | None, link: str) -> None:
    assert counted(machine(pci_nic(operstate=state, carrier=carrier)), "nic", {"link": link}) == ["eth0"]


def tunnel(name: str, to: int, interface: str | None, kind: str = "gre", **more: Any) -> Recording:
    """A software interface that uses another one. to, interface: the other's number and name (None: unknown)."""
    linked = {"linked_interfaces": {name: interface}} if interface is not None else {}
    return merge(nic(name, number=30, link_kind=kind, attributes={"iflink": f"{to}\n"}, **more), linked)


VF = pci_nic("eth0v0", "0000:02:00.3", physfn="0000:02:00.0", number=8)
SF_OF_PF = f"{pci_path('0000:02:00.0')}/mlx5_core.sf.4"
# pf0 is a member of bond0.
MEMBER = {"links": {f"{pci_path('0000:02:00.0')}/net/pf0/master": "/sys/class/net/bond0"}}
# A bridge with a port to veth8.
TO_BRIDGE = merge(nic("veth9", master="br0", number=9), nic("br0", devtype="bridge", lower=["veth9", "eth1"]))
# Open vSwitch: the bridge br-ex has the ports of ovs-system.
OVS = [
    nic("ovs-system", lower=["eth1", "vxlan_sys"], link_kind="openvswitch", number=10),
    nic("vxlan_sys", link_kind="vxlan", number=11),
    nic("br-ex", link_kind="openvswitch", number=12),
]


@pytest.mark.parametrize(
    ("network", "system"),  # the machine besides three ports, and the system's ports
    [
        ([routes("eth0")], ["eth0"]),
        ([routes("eth0", "eth1")], ["eth0", "eth1"]),
        ([*VLANS, bond("802.3ad", "eth0.7", "eth1.7"), routes("bond0")], ["eth0", "eth1"]),
        ([nic("br0", devtype="bridge", lower=["eth0", "veth9"]), nic("veth9"), routes("br0")], ["eth0"]),
        ([VF, routes("eth0v0")], ["pf0"]),
        ([VF, bond("active-backup", "eth0v0"), routes("bond0")], ["pf0"]),
        ([VF, nic("eth0v0.7", devtype="vlan", lower=["eth0v0"]), routes("eth0v0.7")], ["pf0"]),
        ([VF, merge(PF, MEMBER), bond("802.3ad", "pf0", "eth1"), routes("eth0v0")], ["eth1", "pf0"]),
        ([nic("sf4", SF_OF_PF, number=8), routes("sf4")], ["pf0"]),
        ([vdpa("0000:02:00.3", name="eth9", physfn="0000:02:00.0"), routes("eth9")], ["pf0"]),
        ([vdpa("0000:02:00.0", name="eth9"), routes("eth9")], ["pf0"]),
        ([pci_nic("eth0", attributes=IB, number=5), child("ib0.1", number=6, parent=5), routes("ib0.1")], ["eth0"]),
        ([pci_nic("eth0", attributes=IB, number=5), child("ib0.1", number=6, parent=99), routes("ib0.1")], []),
        ([tunnel("gre1", to=3, interface="eth1"), routes("gre1")], ["eth1"]),
        ([tunnel("gre1", to=9, interface="bond0"), bond("802.3ad", "eth0", "eth1"), routes("gre1")], ["eth0", "eth1"]),
        ([tunnel("veth8", to=9, interface="veth9", kind="veth"), TO_BRIDGE, routes("veth8")], ["eth1"]),
        ([*OVS, routes("br-ex")], ["eth1"]),
        # A bridge has a hardware port, so nothing need be known about its other port.
        ([nic("br0", lower=["eth1", "veth8"]), tunnel("veth8", to=2, interface=None), routes("br0")], ["eth1"]),
    ],
)
def test_the_port_by_which_the_default_route_leaves_is_the_systems(network: list[Recording], system: list[str]) -> None:
    """On a bond, VLAN, bridge or tunnel, the system's ports are those below it."""
    host = machine(E0, E1, PF, *network)
    assert counted(host, "nic", {"system": True}) == system
    assert counted(host, "nic", {"system": False}) == sorted({"eth0", "eth1", "pf0"} - set(system))


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (merge(VF, {"links": {f"{pci_path('0000:02:00.3')}/physfn": "../gone"}}, routes("eth0v0")), "dangling"),
        # The peer of veth8 is in another network namespace.
        (merge(tunnel("veth8", to=9, interface="", kind="veth"), routes("veth8")), "through veth8"),
        (merge(tunnel("gre1", to=0, interface=""), routes("gre1")), "through gre1"),  # bound to no interface
        (merge(tunnel("gre1", to=3, interface=None), routes("gre1")), 'does not contain "linked_interfaces gre1"'),
        (merge(nic("ppp0", link_kind="ppp"), routes("ppp0")), "through ppp0"),
        (merge(nic("br-ex", link_kind="openvswitch"), routes("br-ex")), "through br-ex"),
        (routes(), "no default route"),
        (merge(nic("wg0"), routes("wg0")), "through wg0"),
        (merge(nic("wg0"), routes("eth0", "wg0")), "through wg0"),
        ({}, "default_interfaces"),  # the recording lacks them
        (merge(routes("eth0"), errors({"/sys/class/net/eth0": "EIO"})), "could not be read"),
    ],
)
def test_no_interface_is_free_while_the_systems_interfaces_are_unknown(network: Recording, reason: str) -> None:
    reading = read(machine(E0, E1, network), "nic", {"system": False})
    assert isinstance(reading, Unknown)
    assert reason in reading.reason


NO_CARRIER = merge(
    nic("x0", "/sys/devices/vif-0", operstate="unknown"), errors({"/sys/devices/vif-0/net/x0/carrier": "EIO"})
)
MYSTERY = nic("x0", lower=["eth0"])  # netlink fails, so this may be a team or another software interface
BROKEN = [  # an interface that cannot be read completely, a table, and the interfaces that count (None: unknown)
    (NO_CARRIER, {"link": "down"}, None),
    (MYSTERY, {}, ["eth0"]),
    (MYSTERY, {"kind": ["physical", "vf"]}, ["eth0"]),
    (MYSTERY, {"kind": ["physical", "team"]}, None),
    (merge(nic("x0"), errors({"/sys/devices/virtual/net/x0/uevent": "EIO"})), {}, ["eth0"]),
    (
        merge(bond("802.3ad", "eth0"), errors({"/sys/devices/virtual/net/bond0/type": "EIO"})),
        {"kind": "bond"},
        ["bond0"],
    ),
    (merge(E1, errors({f"{pci_path('0000:01:00.1')}/net/eth1": "EIO"})), {"name": "eth0"}, ["eth0"]),
    (merge(SLOW, errors({f"{pci_path('0000:02:00.0')}/net/eno1/uevent": "EIO"})), {}, None),
    (
        merge(nic("x0", "/sys/devices/vif-0"), errors({"/sys/devices/vif-0/net/x0/uevent": "EIO"})),
        {"driver": "i40e"},
        ["eth0"],
    ),
]


@pytest.mark.parametrize(("broken", "keys", "interfaces"), BROKEN)
def test_an_interface_that_cannot_be_read_matters_only_if_it_may_count(
    broken: Recording, keys: dict[str, object], interfaces: list[str] | None
) -> None:
    host = machine(E0, broken)
    if interfaces is None:
        assert isinstance(read(host, "nic", keys), Unknown)
    else:
        assert counted(host, "nic", keys) == interfaces

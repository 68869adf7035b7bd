"""Network interfaces and addresses that people reported to other tools. tests/reports.md lists the reports."""

from __future__ import annotations

import pytest

from capacityd.model.reading import Absent, Unknown
from tests.support.machines import Recording, machine, merge, nic, pci_function, pci_nic, pci_path, routes, usb_nic
from tests.support.readings import counted, quantity, read
from tests.unit.detectors.test_nic import below, hardware

VMBUS = "/sys/devices/LNXSYSTM:00/ACPI0004:00/VMBUS:00"
FREE: dict[str, object] = {"system": False}


def vlan(name: str, lower: str, number: int = 31) -> Recording:
    return nic(name, devtype="vlan", lower=[lower], number=number)


def bridge(name: str, lower: str, number: int = 32) -> Recording:
    return nic(name, devtype="bridge", lower=[lower], number=number)


def tmfifo() -> Recording:
    """The link of a BlueField card to the machine that it is in."""
    parent = "/sys/devices/platform/MLNXBF01:00"
    interface = below(f"{parent}/virtio1", "virtio", "virtio_net", "tmfifo_net0", number=6)
    return merge(hardware(parent, "platform", "mlxbf-tmfifo"), interface)


def netvsc(name: str, lower: str, number: int) -> Recording:
    """An interface of Hyper-V above another interface."""
    return below(f"{VMBUS}/{name}", "vmbus", "hv_netvsc", name, lower=[lower], number=number)


def virtio_card(name: str, address: str, physfn: str | None = None) -> Recording:
    """A virtio interface whose PCI function may be a virtual one."""
    card = pci_function(address, "1af4", "1000", "020000", "virtio-pci", physfn=physfn)
    function = int(address[-1])
    path = f"{pci_path(address)}/virtio{function}"
    return merge(card, below(path, "virtio", "virtio_net", name, speed="-1", number=20 + function))


def uplink_and_representors() -> Recording:
    """A card in switchdev mode."""
    uplink = pci_nic("pf0", "0000:81:00.0", attributes={"phys_port_name": "p0\n"})
    ports = [
        pci_nic(f"eth{n}", "0000:81:00.0", number=10 + n, attributes={"phys_port_name": f"pf0vf{n}\n"})
        for n in range(3)
    ]
    return merge(uplink, *ports)


IB = {"type": "32\n"}
SAME_ADDRESS = {"address": "28:00:af:0a:b4:8e\n"}
BOND = nic("bond0", bond=("balance-alb", ["eth0", "eth1"]), number=9)
TWO = merge(pci_nic("eth0", "0000:01:00.0"), pci_nic("eth1", "0000:01:00.1", number=3))
TWO_MORE = merge(pci_nic("eth2", "0000:02:00.0", number=12), pci_nic("eth3", "0000:02:00.1", number=13))
# The network port of a DPU, and the representor of its function for the host.
DPU = merge(
    pci_nic("p0", "0000:03:00.0", number=4, attributes={"phys_port_name": "p0\n"}),
    pci_nic("pf0hpf", "0000:03:00.0", number=5, attributes={"phys_port_name": "pf0hpf\n"}),
)
AZURE = merge(
    netvsc("eth0", lower="enP1s1", number=2),
    pci_nic("enP1s1", "0001:00:02.0", vendor="15b3", master="eth0", number=3),  # its physical function is elsewhere
)
MANA = merge(  # below two interfaces of Hyper-V are the two ports of one PCI function
    netvsc("eth0", lower="vf0", number=2),
    netvsc("eth1", lower="vf1", number=3),
    pci_nic("vf0", "7870:00:00.0", "1414", "00ba", "mana", master="eth0", number=4),
    nic("vf1", pci_path("7870:00:00.0"), master="eth1", number=5),
)
IPOIB = merge(
    pci_nic("mlx5_ib1", attributes=IB, number=5),
    nic("mlx5_ib1.8013", pci_path("0000:01:00.0"), number=6, attributes={"iflink": "5\n", **IB}),
)
MLX4 = merge(pci_nic("eth0", "0000:41:00.0", driver="mlx4_core"), nic("eth1", pci_path("0000:41:00.0"), number=3))
WITH_VF = merge(pci_nic("pf0", "0000:81:00.0"), pci_nic("pf0v0", "0000:81:00.2", physfn="0000:81:00.0", number=3))
VIRTIO = merge(virtio_card("eth0", "0000:06:00.0"), virtio_card("eth1", "0000:06:00.5", physfn="0000:06:00.0"))
TWINS = merge(pci_nic("eth0", attributes=SAME_ADDRESS), usb_nic("enx0", attributes=SAME_ADDRESS, number=3))
MODEM_ON_PCI = below("/sys/devices/pci0000:00/0000:00:1c.0/0000:08:00.0/mhi0", "mhi", None, "wwan0", devtype="wwan")
SWITCHING = merge(*(below("/sys/devices/platform/8000000.ethernet", "platform", "am65-cpsw", n) for n in ("e0", "e1")))
THUNDERBOLT = below("/sys/devices/pci0000:00/0000:00:0d.2/domain0/0-0/0-1/0-1.0", "thunderbolt", None, "thunderbolt0")
# bridge() and vlan(): the name, and the interface below it.
ON_BRIDGES = merge(bridge("br-user", "eth0", 30), vlan("br-user.7", "br-user"), bridge("br-user-7", "br-user.7"))
ON_BOND = merge(BOND, vlan("bond0.6", "bond0"), bridge("br_public", "bond0.6"))

# The machine, the keys of a table, and the interfaces that count.
SITUATIONS: dict[str, tuple[Recording, dict[str, object], str]] = {
    "a DPU's link to its host is no port": (merge(DPU, tmfifo()), {}, "p0"),
    "the ports of a DPU's host functions are no ports": (DPU, {"kind": "representor"}, "pf0hpf"),
    "an accelerated pair on Azure is one port": (AZURE, {}, "eth0"),
    "accelerated pairs on Azure may share a PCI function": (MANA, {}, "eth0 eth1"),
    "the other one of two accelerated pairs is free": (
        merge(MANA, routes("eth0")),
        {**FREE, "kind": ["physical", "vf"]},
        "eth1 vf1",
    ),
    "a VLAN counts only if its kind is given": (merge(TWO, vlan("eth0.20", "eth0")), {"kind": "vlan"}, "eth0.20"),
    "a card of a mainframe has neither PCI nor SR-IOV": (
        below("/sys/devices/qeth/0.0.1000", "ccwgroup", "qeth", "enc1"),
        {"bus": "ccwgroup"},
        "enc1",
    ),
    "a bond does not count beside its members": (merge(TWO, BOND), {}, "eth0 eth1"),
    "a team does not count beside its members": (
        merge(TWO, nic("team0", lower=["eth0", "eth1"], link_kind="team", speed=None)),
        {},
        "eth0 eth1",
    ),
    "InfiniBand is recognised by its type and not by its name": (
        pci_nic("ibP4099s0", attributes=IB),
        {"attributes.type": "32"},
        "ibP4099s0",
    ),
    "an InfiniBand card whose link is Ethernet is Ethernet": (pci_nic("ens3np0"), {"attributes.type": "32"}, ""),
    "an IPoIB child is not a second port": (IPOIB, {}, "mlx5_ib1"),
    "a modem on USB is excluded by its bus": (merge(pci_nic("eth0"), usb_nic("usb0")), {"bus": "pci"}, "eth0"),
    "a modem on PCIe is wireless": (MODEM_ON_PCI, {"kind": "wireless"}, "wwan0"),
    "a virtual function is not a physical one": (WITH_VF, {}, "pf0"),
    "a virtual function of a virtio card is no card": (VIRTIO, {}, "eth0"),
    "the default route is on a virtual function of a virtio card": (
        merge(VIRTIO, TWO_MORE, routes("eth1")),
        FREE,
        "eth2 eth3",
    ),
    "the link of a machine to a DPU is software": (
        merge(TWO, nic("tmfifo_net0", link_kind="tun", number=6)),
        {"kind": "virtual"},
        "tmfifo_net0",
    ),
    "the default route is on a macvlan": (
        merge(TWO, nic("shim0", devtype="macvlan", lower=["eth0"], number=6), routes("shim0")),
        FREE,
        "eth1",
    ),
    "a USB adapter is a port": (merge(TWO, usb_nic("enx0")), {"bus": "usb"}, "enx0"),
    "only the uplink of a card in switchdev mode is a port": (uplink_and_representors(), {}, "pf0"),
    "two ports may share a PCI function": (MLX4, {}, "eth0 eth1"),
    "the other port of the PCI function is free": (merge(MLX4, routes("eth0")), FREE, "eth1"),
    "two adapters with the same hardware address are two ports": (TWINS, {}, "enx0 eth0"),
    "both ports of a switching processor are ports": (SWITCHING, {}, "e0 e1"),
    "a modem that is no Ethernet adapter is wireless": (
        usb_nic("wwan0", devtype="wwan"),
        {"kind": "wireless"},
        "wwan0",
    ),
    "the default route is on a bridge on a VLAN on a bridge": (
        merge(TWO, ON_BRIDGES, routes("br-user-7")),
        FREE,
        "eth1",
    ),
    "the default route is on a bridge on a VLAN on a bond": (
        merge(TWO, TWO_MORE, ON_BOND, routes("br_public")),
        FREE,
        "eth2 eth3",
    ),
    "the network of a VPN is beside the default route": (
        merge(TWO, nic("wt0", number=30), routes("eth0")),
        FREE,
        "eth1",
    ),
    "a Thunderbolt link is a port": (THUNDERBOLT, {}, "thunderbolt0"),
}


@pytest.mark.parametrize(("parts", "keys", "names"), SITUATIONS.values(), ids=SITUATIONS)
def test_reported_interfaces_are_counted_by_their_keys(parts: Recording, keys: dict[str, object], names: str) -> None:
    assert counted(machine(parts), "nic", keys) == names.split()


def test_a_name_that_only_udev_gives_to_an_interface_has_a_hint() -> None:
    names = {"ID_NET_NAME_ONBOARD": "eno1", "ID_NET_NAME_PATH": "enp1s0f0", "ID_NET_NAME_MAC": "enx001122334455"}
    address = {"addresses": [["eth0", "ipv4", "192.0.2.7", 24, "global", False]]}
    host = machine(pci_nic("eth0", properties=names), address)
    for detector, key in (("nic", "name"), ("address", "interface")):
        for property_, name in names.items():
            reading = read(host, detector, {key: name})
            assert isinstance(reading, Absent)
            assert reading.explanation is not None
            advice = f'write "eth0", or properties = {{ {property_} = "{name}" }}'
            assert reading.explanation.hints == (f'{key}: "{name}" is another name of "eth0"; {advice}',)
        assert len(counted(host, detector, {f"properties.{property_}": name})) == 1
    without_udev = read(machine(nic("eth0", devtype="vlan")), "nic", {"name": "enp1s0f0"})
    assert isinstance(without_udev, Absent)
    assert without_udev.explanation is None


def test_an_interface_with_another_name_is_absent_and_not_zero() -> None:
    """The name in the configuration may be wrong since an update has renamed the interface."""
    reading = read(machine(pci_nic("enp0s3")), "nic", {"name": "eth0"})
    assert isinstance(reading, Absent)
    assert [(r.device, r.reason) for r in reading.rejections] == [("enp0s3", 'name is "enp0s3", wanted eth0')]


def test_a_hardware_address_in_upper_case_has_a_hint() -> None:
    host = machine(pci_nic("eth0", attributes={"address": "b0:26:28:4e:7e:b6\n"}))
    reading = read(host, "nic", {"attributes.address": "B0:26:28:4E:7E:B6"})
    assert isinstance(reading, Absent)
    assert reading.explanation is not None
    assert "differs from" in reading.explanation.hints[0]


def test_members_of_a_bond_have_its_hardware_address_and_their_own_path() -> None:
    shared = {"address": "b0:26:28:4e:7e:b6\n"}
    members = [
        pci_nic(f"eth{n}", f"0000:01:00.{n}", number=2 + n, attributes=shared, properties={"ID_PATH": f"pci-{n}"})
        for n in (0, 1)
    ]
    host = machine(*members, nic("bond0", bond=("802.3ad", ["eth0", "eth1"]), number=9, attributes=shared))
    assert counted(host, "nic", {"attributes.address": shared["address"].strip()}) == ["eth0", "eth1"]
    assert counted(host, "nic", {"properties.ID_PATH": "pci-1"}) == ["eth1"]


def test_a_virtual_function_in_a_pods_namespace_still_counts_as_a_pci_function() -> None:
    host = machine(
        pci_nic("pf0", "0000:81:00.0"),
        pci_function("0000:81:00.2", "8086", "154c", "020000", "iavf", physfn="0000:81:00.0"),
    )
    assert counted(host, "nic", {"kind": "vf"}) == []
    assert counted(host, "pci", {"class": "02", "vf": True}) == ["0000:81:00.2"]


def test_the_speed_of_a_bond_is_that_of_its_active_members_now() -> None:
    """Only one of the two members is active, because the switch aggregates only one."""
    host = machine(TWO, nic("bond0", bond=("802.3ad", ["eth0", "eth1"]), speed="10000", number=9))
    assert quantity(host, "nic", {"kind": "bond"}, measure="speed", unit="Gbit/s") == 10
    assert quantity(host, "nic", {"kind": "bond"}, measure="max_speed", unit="Gbit/s") == 20


@pytest.mark.parametrize("tunnel", ["wg0", "dummy0"])
def test_a_default_route_that_ends_in_no_port_makes_the_free_ports_unknown(tunnel: str) -> None:
    """The route leads into a VPN, or nowhere: some programs only need a default route to exist."""
    host = machine(TWO, nic(tunnel, number=20), routes(tunnel))
    reading = read(host, "nic", {"system": False})
    assert isinstance(reading, Unknown)
    assert f"default route through {tunnel}" in reading.reason
    assert counted(host, "nic", {"name": "eth1"}) == ["eth1"]


ADDRESSES = {
    "addresses": [  # interface, family, address, prefix length, scope, and whether it is temporary
        ["eth0", "ipv4", "192.0.2.7", 24, "global", False],
        ["eth0", "ipv4", "192.0.2.100", 32, "global", False],  # a virtual IP address, which moves between machines
        ["ens9", "ipv6", "fd00::31", 64, "global", False],  # the only address of its interface
        ["thunderbolt0", "ipv4", "169.254.205.206", 16, "link", False],
        ["nodelocaldns", "ipv4", "169.254.25.10", 32, "global", False],
        ["lo", "ipv4", "10.1.1.6", 32, "global", False],  # of a machine that routes with BGP
        ["kube-ipvs0", "ipv4", "10.233.0.1", 32, "global", False],
    ]
}
INTERFACES = [nic(name) for name in ("lo", "ens9", "thunderbolt0", "nodelocaldns", "kube-ipvs0")]
ADDRESSED = machine(TWO, *INTERFACES, routes("eth0"), ADDRESSES)


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({"interface": "ens9"}, ["ens9 fd00::31/64"]),
        ({"interface": "lo"}, ["lo 10.1.1.6/32"]),
        ({"address": "::ffff:192.0.2.7"}, ["eth0 192.0.2.7/24"]),
        ({"address": "::ffff:192.0.2.0/120"}, ["eth0 192.0.2.7/24", "eth0 192.0.2.100/32"]),
        ({"address": "::/0"}, ["ens9 fd00::31/64"]),
        ({"system": True}, ["eth0 192.0.2.7/24", "eth0 192.0.2.100/32"]),
        ({"interface": "thunderbolt0"}, []),
        ({"interface": "thunderbolt0", "scope": "link"}, ["thunderbolt0 169.254.205.206/16"]),
        ({"interface": "eth0"}, ["eth0 192.0.2.7/24", "eth0 192.0.2.100/32"]),
    ],
)
def test_reported_addresses_are_counted_by_their_keys(keys: dict[str, object], names: list[str]) -> None:
    assert counted(ADDRESSED, "address", keys) == names


def test_a_virtual_ip_address_can_be_excluded() -> None:
    excepts = ({"address": "192.0.2.100"},)
    assert counted(ADDRESSED, "address", {"interface": "eth0"}, excepts=excepts) == ["eth0 192.0.2.7/24"]

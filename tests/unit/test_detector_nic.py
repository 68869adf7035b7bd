"""What facts of network interfaces the detector must know: each test is a bug that somebody had."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from capacityd.kinds import UNITS, Unit
from capacityd.model import Absent, Quantity, Unknown
from tests.unit.looking import counted, look, values
from tests.unit.machines import (
    Recording,
    errors,
    files,
    machine,
    merge,
    nic,
    pci_nic,
    pci_path,
    routes,
    usb_device,
    usb_nic,
    usb_path,
    virtio_nic,
)

GBIT = 10**9
MBITS = Unit("Mbit/s", UNITS["speed"]["Mbit/s"])
E0 = pci_nic("eth0", "0000:01:00.0", speed="10000")
E1 = pci_nic("eth1", "0000:01:00.1", speed="10000", number=3)
SLOW = pci_nic("eno1", "0000:02:00.0", link_speeds=[10**7, 10**8, GBIT], number=4)


def bond(mode: str, *members: str, speed: str | None = "20000") -> Recording:
    return nic("bond0", bond=(mode, members), speed=speed, number=9)


def test_physical_is_the_default_and_software_is_left_out() -> None:
    software = [
        nic("lo", speed=None, operstate="unknown"),
        nic("docker0", devtype="bridge"),
        nic("eth0.10", devtype="vlan", lower=["eth0"]),
        nic("veth1a2b"),
        nic("cilium_vxlan", devtype="vxlan"),
        nic("team0", lower=["eth0"], link_kind="team"),
        nic("ipvl0", lower=["eth0"], link_kind="ipvlan"),
        nic("macvl0", devtype="macvlan", lower=["eth0"]),
        bond("802.3ad", "eth0", "eth1"),
    ]
    host = machine(E0, E1, *software)
    assert counted(host, "nic") == ["eth0", "eth1"]
    assert values(host, "nic", "kind") == {
        "bond0": "bond",
        "cilium_vxlan": "virtual",
        "docker0": "bridge",
        "eth0": "physical",
        "eth0.10": "vlan",
        "eth1": "physical",
        "ipvl0": "virtual",
        "lo": "virtual",
        "macvl0": "virtual",
        "team0": "team",
        "veth1a2b": "virtual",
    }
    assert counted(host, "nic", {"kind": ["bond", "vlan"]}) == ["bond0", "eth0.10"]
    for kind in ("representor", "bmc", "wireless", "other", "vf"):
        assert counted(host, "nic", {"kind": kind}) == []
    assert counted(host, "nic", {"kind": "bridge"}) == ["docker0"]
    assert len(counted(host, "nic", {"kind": "virtual"})) == 5
    for key in ("vendor", "device", "bus", "driver"):
        assert values(host, "nic", key)["lo"] is None


def test_bonding_masters_is_a_file_and_no_interface() -> None:
    host = machine(E0, files({"/sys/class/net/bonding_masters": "bond0\n"}))
    assert values(host, "nic", "name") == {"eth0": "eth0"}


def test_virtual_functions_have_a_device_too() -> None:
    vf = pci_nic("eth0v0", "0000:01:02.0", physfn="0000:01:00.0")
    host = machine(E0, vf)
    assert counted(host, "nic") == ["eth0"]
    assert counted(host, "nic", {"kind": "vf"}) == ["eth0v0"]


def test_sub_functions_are_as_virtual_functions() -> None:
    sub = nic("en3f0s88", f"{pci_path('0000:01:00.0')}/mlx5_core.sf.4")
    assert values(
        machine(E0, sub, files({f"{pci_path('0000:01:00.0')}/mlx5_core.sf.4/sfnum": "88"})), "nic", "kind"
    ) == {
        "en3f0s88": "vf",
        "eth0": "physical",
    }


@pytest.mark.parametrize(
    ("port", "kind"),
    [
        ("p0", "physical"),
        ("p0s1", "physical"),
        ("pf0vf1", "representor"),
        ("pf0hpf", "representor"),
        ("c12pf0sf88", "representor"),
        ("p0pf0vf1", "representor"),  # sfc's
        ("", "physical"),
    ],
)
def test_representors_are_the_switch_ends_of_virtual_functions(port: str, kind: str) -> None:
    host = machine(pci_nic("eth0", attributes={"phys_port_name": f"{port}\n"}))
    assert values(host, "nic", "kind") == {"eth0": kind}


def test_most_drivers_do_not_name_their_port() -> None:
    place = f"{pci_path('0000:01:00.0')}/net/eth0/phys_port_name"
    for error in ("EOPNOTSUPP", "EINVAL"):
        assert values(machine(E0, errors({place: error})), "nic", "kind") == {"eth0": "physical"}
    assert isinstance(look(machine(E0, errors({place: "EIO"})), "nic"), Unknown)


def test_an_accelerated_interface_counts_once() -> None:
    """On Azure eth0 (netvsc) speaks for the virtual function below it; the guest sees no physfn."""
    vmbus = "/sys/devices/LNXSYSTM:00/ACPI0004:00/VMBUS:00/000d3a"
    host = machine(
        nic("eth0", vmbus, speed="40000", lower=["enP1s1"]),
        files({f"{vmbus}/vendor": "0x1414\n"}),
        pci_nic("enP1s1", "0001:00:02.0", "15b3", "1016", "mlx5_core", master="eth0"),
    )
    assert counted(host, "nic") == ["eth0"]
    assert values(host, "nic", "kind")["enP1s1"] == "vf"


def test_members_of_a_bond_stay_physical_and_the_bond_is_not_summed_with_them() -> None:
    members = [pci_nic(f"eth{n}", f"0000:01:00.{n}", master="bond0", speed="10000") for n in (0, 1)]
    host = machine(*members, bond("802.3ad", "eth0", "eth1"))
    reading = look(host, "nic", measure="speed", unit=MBITS)
    assert isinstance(reading, Quantity)
    assert reading.value == 20_000


def test_virtio_is_physical_and_names_no_link_modes() -> None:
    host = machine(virtio_nic())
    assert counted(host, "nic", {"bus": "virtio", "driver": "virtio_net", "vendor": "1af4", "device": "1041"}) == [
        "eth0"
    ]
    for measure in ("speed", "max_speed"):
        assert isinstance(look(host, "nic", measure=measure, unit=MBITS), Unknown)
        reading = look(host, "nic", measure=measure, unit=MBITS, fallback=10 * GBIT)
        assert isinstance(reading, Quantity)
        assert reading.value == 10_000


def test_ids_are_those_of_the_pci_or_usb_device_below() -> None:
    host = machine(E0, usb_nic("enx0", "1-2"))
    assert values(host, "nic", "vendor") == {"enx0": "0bda", "eth0": "8086"}
    assert values(host, "nic", "device") == {"enx0": "8153", "eth0": "1572"}
    assert values(host, "nic", "bus") == {"enx0": "usb", "eth0": "pci"}
    assert values(host, "nic", "driver") == {"enx0": "r8152", "eth0": "i40e"}


@pytest.mark.parametrize(
    "ids", [("413c", "a102"), ("03f0", "2927"), ("04b3", "4010"), ("046b", "ffb0"), ("0b1f", "03ee")]
)
def test_the_way_to_the_service_processor_is_no_network_port(ids: tuple[str, str]) -> None:
    """It names no link modes either: among the physical ones it would leave their bandwidth unknown."""
    adapter = usb_device("1-3", *ids, interfaces=[("020600", "cdc_ether"), ("0a0000", "cdc_ether")])
    bmc = nic("usb0", f"{usb_path('1-3')}/1-3:1.0", speed="-1", link_speeds=[])
    host = machine(E0, bmc, adapter, usb_nic("enx0", "1-2", link_speeds=[GBIT]), routes("eth0"))
    assert values(host, "nic", "kind") == {"enx0": "physical", "eth0": "physical", "usb0": "bmc"}
    assert counted(host, "nic", {"kind": "bmc"}) == ["usb0"]
    reading = look(host, "nic", {"system": False}, measure="max_speed", unit=MBITS)
    assert isinstance(reading, Quantity)
    assert reading.value == 1000


def test_the_way_to_a_service_processor_that_runs_openbmc() -> None:
    """Its ids are those of any Linux that plays a USB device."""
    for maker, kind in (("OpenBMC", "bmc"), ("Raspberry Pi", "physical")):
        gadget = usb_device("1-3", "1d6b", "0103", None, maker, "usbnet", interfaces=[("020d00", "cdc_ncm")])
        host = machine(gadget, nic("usb0", f"{usb_path('1-3')}/1-3:1.0", link_speeds=[]))
        assert values(host, "nic", "kind") == {"usb0": kind}


def test_of_a_switch_inside_the_machine_the_ports_count_and_not_the_way_to_it() -> None:
    """Documentation/networking/dsa/dsa.rst: all that the ports carry goes through the conduit."""
    soc = "/sys/devices/platform/soc/1b100000.ethernet"
    ports = [
        nic(f"lan{n}", f"{soc}/mdio_bus/mdio-bus/mdio-bus:1f", devtype="dsa", lower=["eth0"], link_speeds=[GBIT])
        for n in range(4)
    ]
    conduit = nic("eth0", soc, link_speeds=[25 * GBIT // 10], attributes={"dsa/tagging": "mtk\n"})
    host = machine(conduit, *ports, routes("lan0"))
    assert counted(host, "nic") == ["lan0", "lan1", "lan2", "lan3"]
    assert values(host, "nic", "kind")["eth0"] == "other"
    assert counted(host, "nic", {"kind": ["physical", "other"], "system": True}) == ["eth0", "lan0"]


def test_interfaces_on_other_buses_are_physical() -> None:
    """A cable of Thunderbolt to the next machine, a paravirtual card of Xen: each has hardware of its own."""
    for place in ("/sys/devices/pci0000:00/0000:00:0d.2/domain0/0-0/0-1/0-1.0", "/sys/devices/vif-0"):
        assert counted(machine(nic("x0", place)), "nic") == ["x0"]


def test_a_bond_of_vlans_is_as_fast_as_what_the_vlans_stand_on() -> None:
    vlans = [nic(f"eth{n}.7", devtype="vlan", lower=[f"eth{n}"], link_speeds=[10 * GBIT]) for n in (0, 1)]
    host = machine(E0, E1, *vlans, bond("802.3ad", "eth0.7", "eth1.7"), routes("bond0"))
    assert counted(host, "nic") == ["eth0", "eth1"]
    assert values(host, "nic", "max_speed")["bond0"] == 20 * GBIT
    assert counted(host, "nic", {"system": True}) == ["eth0", "eth1"]


def test_wireless_interfaces_are_a_kind_of_their_own() -> None:
    for devtype in ("bluetooth", "wlan", "wwan"):
        assert values(machine(pci_nic("w0", devtype=devtype)), "nic", "kind") == {"w0": "wireless"}
    path = f"{pci_path('0000:01:00.0')}/net/w0/phy80211"
    old_driver = merge(pci_nic("w0"), {"links": {path: "../.."}})
    assert values(machine(old_driver), "nic", "kind") == {"w0": "wireless"}


@pytest.mark.parametrize(("said", "kind"), [("1", "physical"), ("32", "physical"), ("280", "other"), ("24", "other")])
def test_a_can_bus_is_no_network_port(said: str, kind: str) -> None:
    """It has hardware of its own and is listed among the NICs, as FireWire is; seen with a Kvaser card."""
    one = pci_nic("can0", attributes={"type": f"{said}\n"})
    assert values(machine(one), "nic", "kind") == {"can0": kind}


def test_infiniband_tells_its_speed_but_no_link_modes() -> None:
    """Beside it Ethernet's ports are known by the type of the interface."""
    ib = pci_nic("ib0", "0000:17:00.0", "15b3", "1021", "mlx5_core", [], speed="400000", attributes={"type": "32\n"})
    host = machine(E0, ib)
    reading = look(host, "nic", {"attributes.type": "32"}, measure="speed", unit=MBITS)
    assert isinstance(reading, Quantity)
    assert reading.value == 400_000
    assert isinstance(look(host, "nic", {"max_speed": ">=10Gbit/s"}), Unknown)
    assert counted(host, "nic", {"max_speed": ">=10Gbit/s", "attributes.type": "1"}) == ["eth0"]


def test_a_child_of_infiniband_is_not_physical() -> None:
    host = machine(pci_nic("ib0"), nic("ib0.8001", pci_path("0000:01:00.0"), attributes={"parent": "ib0\n"}))
    assert values(host, "nic", "kind") == {"ib0": "physical", "ib0.8001": "virtual"}


@pytest.mark.parametrize("said", ["-1", "0", "4294967295", None])
def test_no_speed_is_unknown_and_neither_negative_nor_zero(said: str | None) -> None:
    reading = look(machine(pci_nic(speed=said)), "nic", measure="speed", unit=MBITS)
    assert isinstance(reading, Unknown)
    assert "does not tell its speed" in reading.reason


@pytest.mark.parametrize("said", ["", "fast", "10000 Mb/s", "1e4"])
def test_a_speed_that_is_no_number_is_unknown(said: str) -> None:
    assert isinstance(look(machine(pci_nic(speed=said)), "nic", measure="speed", unit=MBITS), Unknown)


@pytest.mark.parametrize("state", ["down", "lowerlayerdown", "dormant", "notpresent"])
def test_the_speed_of_a_link_that_is_down_is_unknown_whatever_the_driver_says(state: str) -> None:
    reading = look(machine(pci_nic(operstate=state, speed="25000")), "nic", measure="speed", unit=MBITS)
    assert isinstance(reading, Unknown)
    assert "down" in reading.reason


def test_the_maximum_does_not_depend_on_optics_or_the_link() -> None:
    """A 25G card on 10G optics (netdata#14803)."""
    card: dict[str, Any] = {"link_speeds": [GBIT, 10 * GBIT, 25 * GBIT], "speed": "10000"}
    for host in (machine(pci_nic(**card)), machine(pci_nic(**card, operstate="down", carrier=None))):
        reading = look(host, "nic", measure="max_speed", unit=MBITS)
        assert isinstance(reading, Quantity)
        assert reading.value == 25_000
    assert values(machine(pci_nic(**card)), "nic", "speed") == {"eth0": 10 * GBIT}


def test_speeds_compare() -> None:
    host = machine(E0, SLOW)
    assert counted(host, "nic", {"max_speed": ">=10Gbit/s"}) == ["eth0"]
    assert counted(host, "nic", {"max_speed": "<10Gbit/s"}) == ["eno1"]


@pytest.mark.parametrize(
    ("mode", "speed"),
    [
        ("802.3ad", 10),
        ("balance-rr", 11),
        ("balance-xor", 11),
        ("balance-alb", 11),
        ("active-backup", 10),
        ("broadcast", 1),
    ],
)
def test_the_maximum_of_a_bond_is_what_its_members_make_together(mode: str, speed: int) -> None:
    host = machine(E0, SLOW, bond(mode, "eth0", "eno1"))
    assert values(host, "nic", "max_speed")["bond0"] == speed * GBIT


def test_of_the_groups_of_one_speed_in_an_lacp_bond_one_is_active() -> None:
    """Documentation/networking/bonding.rst: members of other speeds are in other aggregators."""
    assert values(machine(E0, E1, SLOW, bond("802.3ad", "eth0", "eth1", "eno1")), "nic", "max_speed") == {
        "bond0": 20 * GBIT,
        "eno1": GBIT,
        "eth0": 10 * GBIT,
        "eth1": 10 * GBIT,
    }


def test_the_maximum_of_a_team_is_unknown_unless_the_configuration_says_it() -> None:
    host = machine(E0, nic("team0", lower=["eth0"], link_kind="team", link_speeds=[10 * GBIT]))
    found = look(host, "nic", {"kind": "team"}, measure="max_speed", unit=MBITS)
    assert isinstance(found, Unknown)
    assert "it is a team" in found.reason
    told = look(host, "nic", {"kind": "team"}, measure="max_speed", unit=MBITS, fallback=10 * GBIT)
    assert isinstance(told, Quantity)
    assert told.value == 10_000


def test_what_cannot_be_told_from_a_team_is_unknown() -> None:
    assert isinstance(look(machine(E0, nic("x0", lower=["eth0"])), "nic", {"kind": "team"}), Unknown)


def test_a_bond_of_unknown_members_or_none_is_unknown() -> None:
    for host in (machine(E0, virtio_nic("eth1"), bond("802.3ad", "eth0", "eth1")), machine(bond("802.3ad"))):
        reading = look(host, "nic", {"kind": "bond"}, measure="max_speed", unit=MBITS)
        assert isinstance(reading, Unknown)


def test_a_degraded_bond_member_reads_unknown() -> None:
    down = pci_nic("eth1", "0000:01:00.1", operstate="down", speed=None, carrier="0")
    assert isinstance(look(machine(E0, down), "nic", measure="speed", unit=MBITS), Unknown)


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
def test_link(state: str, carrier: str | None, link: str) -> None:
    assert counted(machine(pci_nic(operstate=state, carrier=carrier)), "nic", {"link": link}) == ["eth0"]


def test_a_link_of_which_nothing_can_be_read_is_neither_up_nor_down() -> None:
    place = f"{pci_path('0000:01:00.0')}/net/eth0"
    broken = machine(pci_nic(operstate="unknown"), errors({f"{place}/carrier": "EIO"}))
    assert isinstance(look(broken, "nic", {"link": "down"}), Unknown)
    silent = look(machine(pci_nic(), errors({f"{place}/speed": "EIO"})), "nic", measure="speed", unit=MBITS)
    assert isinstance(silent, Unknown)
    assert "could not be read" in silent.reason
    world = pci_nic()
    del world["files"][f"{place}/operstate"]
    assert values(machine(world), "nic", "link") == {"eth0": None}


SYSTEMS = [
    (routes("eth0"), ["eth0"]),
    (routes("eth0", "eth1"), ["eth0", "eth1"]),
    (merge(bond("802.3ad", "eth0", "eth1"), routes("bond0")), ["eth0", "eth1"]),
    (merge(nic("br0", devtype="bridge", lower=["eth0", "veth9"]), nic("veth9"), routes("br0")), ["eth0"]),
    (
        merge(
            bond("active-backup", "eth0", "eno1"),
            nic("bond0.7", devtype="vlan", lower=["bond0"]),
            nic("br7", devtype="bridge", lower=["bond0.7"]),
            routes("br7"),
        ),
        ["eno1", "eth0"],
    ),
]


@pytest.mark.parametrize(("network", "system"), SYSTEMS)
def test_the_systems_interfaces_carry_the_default_route(network: Recording, system: list[str]) -> None:
    host = machine(E0, E1, SLOW, network)
    assert counted(host, "nic", {"system": True}) == system
    assert counted(host, "nic", {"system": False}) == sorted({"eth0", "eth1", "eno1"} - set(system))


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (routes(), "no default route"),
        (merge(nic("wg0"), routes("wg0")), "through wg0; what is below that can't be told"),
        (merge(nic("wg0"), routes("eth0", "wg0")), "through wg0; what is below that can't be told"),
        ({}, "does not tell the default routes"),
        (merge(routes("eth0"), errors({"/sys/class/net/eth0": "EIO"})), "could not be read"),
    ],
)
def test_where_it_cannot_be_told_which_is_the_systems_none_is_free(network: Recording, why: str) -> None:
    reading = look(machine(E0, E1, network), "nic", {"system": False})
    assert isinstance(reading, Unknown)
    assert why in reading.reason


@pytest.mark.parametrize("error", ["EACCES", "EIO"])
@pytest.mark.parametrize("place", ["uevent", "device", "operstate", "speed", "../../driver"])
def test_what_cannot_be_read_is_unknown(place: str, error: str) -> None:
    host = machine(E0, errors({os.path.normpath(f"{pci_path('0000:01:00.0')}/net/eth0/{place}"): error}))
    assert isinstance(look(host, "nic", {"driver": "i40e"}, measure="speed", unit=MBITS), Unknown)


def test_the_routes_are_read_once_for_all_interfaces() -> None:
    asked: list[int] = []
    host = machine(E0, E1, SLOW, routes("eth0"))
    found = host.default_interfaces()

    def ask() -> Sequence[str]:
        asked.append(1)
        return found

    host.default_interfaces = ask  # type: ignore[method-assign]
    assert counted(host, "nic", {"system": False}) == ["eno1", "eth1"]
    assert asked == [1]


def test_a_bond_that_does_not_tell_its_mode_is_unknown() -> None:
    host = machine(E0, bond("balance-rr", "eth0"), files({"/sys/devices/virtual/net/bond0/bonding/mode": "\n"}))
    assert isinstance(look(host, "nic", {"kind": "bond"}, measure="max_speed", unit=MBITS), Unknown)


def test_a_hostile_name_is_safe_to_print() -> None:
    host = machine(nic("\x1b[31m\udcff"), routes("eth0"))
    assert list(values(host, "nic", "name").values()) == [r"\x1b[31m\xff"]


def test_one_with_a_hostile_name_is_the_systems_too() -> None:
    host = machine(pci_nic("eth\udcff"), E1, routes("eth\udcff"))
    assert counted(host, "nic", {"system": True}) == [r"eth\xff"]


def test_no_interface_is_absent() -> None:
    assert isinstance(look(machine(), "nic"), Absent)

"""One resource's reading: exact arithmetic, and the unknown that never makes a quantity smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.errors import HostError
from capacityd.host.recorded import RecordedHost
from capacityd.kinds import UNITS, Glob, Test, Unit
from capacityd.model import Absent, Evidence, Quantity, Reserve, Resource, Table, Unknown
from capacityd.quantity import LARGEST, storable
from capacityd.reading import read_resource
from tests.unit.looking import look, resource
from tests.unit.machines import (
    disk,
    errors,
    machine,
    merge,
    pci_nic,
    usb_device,
    usb_hub,
    usb_path,
)

SIZE = UNITS["size"]


def disks(sizes: Sequence[int]) -> RecordedHost:
    """A machine with a disk of each size, in sectors."""
    return machine(
        *(disk(f"sd{n}", f"/sys/devices/platform/d{n}", s * 512, number=f"8:{n}") for n, s in enumerate(sizes))
    )


@given(
    st.lists(st.integers(1, 2**45), min_size=1, max_size=5),
    st.sampled_from(["sum", "min", "max"]),
    st.sampled_from(sorted(SIZE)),
    st.integers(1, 7),
    st.one_of(
        st.integers(0, 10**6).map(Reserve),
        st.integers(0, 1000).map(lambda n: Reserve(share=(n, 1000))),
    ),
)
def test_quantity_is_exact(sectors: list[int], reduce: str, unit: str, slots: int, reserve: Reserve) -> None:
    """floor(reduce(measure x slots) - reserve), at least 0, in the resource's unit."""
    more = {"measure": "size", "unit": Unit(unit, SIZE[unit]), "reduce": reduce, "slots": slots, "reserve": reserve}
    reading = look(disks(sectors), "disk", **more)
    shares = [Fraction(s * 512 * slots, SIZE[unit]) for s in sectors]
    total: Fraction = {"sum": sum, "min": min, "max": max}[reduce](shares)  # type: ignore[operator]
    exact = max(0, floor(total - reserve.units - total * Fraction(*reserve.share)))
    if exact > LARGEST or not storable(exact):
        assert isinstance(reading, Unknown)
        return
    assert isinstance(reading, Quantity)
    assert reading.value == exact
    assert bool(reading.warning) == (exact == 0)
    assert [float(share) for share in shares] == pytest.approx([e.contributes for e in reading.evidence], abs=0.001)


@pytest.mark.parametrize(
    ("more", "value"),
    [
        ({}, 3),
        ({"slots": 4}, 12),
        ({"reserve": Reserve(1)}, 2),
        ({"slots": 4, "reserve": Reserve(share=(1, 10))}, 10),  # 12 - 1.2, rounded down once
        ({"reserve": Reserve(3)}, 0),
        ({"reserve": Reserve(100)}, 0),
        ({"reduce": "max"}, 1),
        ({"reserve": Reserve(share=(100, 100))}, 0),
    ],
)
def test_counts(more: dict[str, Any], value: int) -> None:
    host = machine(*(usb_device(f"1-{n}") for n in (1, 2, 3)))
    reading = look(host, "usb", **more)
    assert isinstance(reading, Quantity)
    assert (reading.value, bool(reading.warning)) == (value, value == 0)


def test_what_rounds_down_to_nothing_is_0_with_a_warning_and_not_absent() -> None:
    reading = look(disks([2**21 - 1]), "disk", measure="size", unit=Unit("GiB", SIZE["GiB"]))
    assert isinstance(reading, Quantity)
    assert reading.value == 0
    assert "less than 1 GiB" in reading.warning
    assert reading.evidence == (Evidence("sd0", 1.0),)


def test_more_than_kubernetes_can_count_is_unknown() -> None:
    reading = look(disks([2**54] * 2), "disk", measure="size", unit=Unit("B", 1))
    assert isinstance(reading, Unknown)
    assert "take a larger unit" in reading.reason
    assert isinstance(look(disks([2**54] * 2), "disk", measure="size", unit=Unit("GiB", SIZE["GiB"])), Quantity)


def test_several_values_add_up() -> None:
    tables = tuple(Table(settings={"quantity": n}) for n in (4, 5))
    reading = read_resource(Resource("example.com/x", "static", tables, reserve=Reserve(2)), machine(), "node")
    assert reading == Quantity(7, (Evidence("configuration", 4), Evidence("configuration", 5)))


def test_a_0_that_was_read_as_such_is_no_warning() -> None:
    reading = read_resource(Resource("example.com/x", "static", (Table(settings={"quantity": 0}),)), machine(), "node")
    assert reading == Quantity(0, (Evidence("configuration", 0),))


def test_fallback_is_for_what_cannot_be_measured_only() -> None:
    mbit = Unit("Mbit/s", 10**6)
    host = machine(pci_nic("eth0", "0000:01:00.0", speed="10000"), pci_nic("eth1", "0000:01:00.1", speed="-1"))
    assert isinstance(look(host, "nic", measure="speed", unit=mbit), Unknown)
    reading = look(host, "nic", measure="speed", unit=mbit, fallback=10**9)
    assert isinstance(reading, Quantity)
    assert reading.value == 11_000
    assert reading.evidence[1] == Evidence("eth1", 1000, "fallback: its driver does not tell its speed")
    broken = machine(pci_nic(speed="10000"), errors({"/sys/devices/pci0000:01/0000:01:00.0/vendor": "EIO"}))
    assert isinstance(look(broken, "nic", {"vendor": "8086"}, measure="speed", unit=mbit, fallback=10**9), Unknown)


def test_says_why_each_device_did_not_count() -> None:
    host = machine(usb_device("1-1", serial="A17"), usb_device("1-2", "0529", serial="B03"), usb_hub("1-3"))
    reading = look(host, "usb", {"vendor": "0529"}, excepts=({"serial": "B03"},))
    assert isinstance(reading, Absent)
    assert reading.reason == "none of 3 usb devices matches"
    assert [(r.device, r.reason) for r in reading.rejections] == [
        ("1-1", 'vendor is "0403", wanted 0529'),
        ("1-2", "except: serial is B03"),
        ("1-3", "hub is true, wanted False by default"),
    ]
    assert read_resource(resource("usb", {"vendor": "0529"}), machine(), "node") == Absent(
        "the machine has no usb device"
    )


def test_unknown_names_the_first_device_and_how_many_more() -> None:
    broken = [errors({f"{usb_path(f'1-{n}')}/serial": "EIO"}) for n in (1, 2, 3)]
    reading = look(machine(*(usb_device(f"1-{n}") for n in (1, 2, 3)), *broken), "usb", {"serial": "*"})
    assert isinstance(reading, Unknown)
    assert reading.reason.startswith("1-1: serial: /sys/bus/usb/devices/1-1/serial could not be read: ")
    assert reading.reason.endswith("(and 2 more)")


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        ("properties.none", "has no properties.none"),
        ("attributes.none", "has no attributes.none"),
        ("attributes.class", 'attributes.class is "0x020000", not a whole number'),
    ],
)
def test_what_has_no_measure_is_named(measure: str, reason: str) -> None:
    asked = resource("udev", {"subsystem": "pci"}, measure=measure)
    reading = read_resource(asked, machine(pci_nic("eth0", "0000:01:00.0")), "n1")
    assert reading == Unknown(f"0000:01:00.0: {reason}; fallback says what it counts for then")


class Vanishing:
    """A machine on which a device is pulled out as soon as it was seen; fails: while it was read."""

    def __init__(self, host: RecordedHost, without: RecordedHost, after: Callable[[str], bool], fails: bool) -> None:
        self._host, self._without, self._after, self._fails = host, without, after, fails

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._host, name)

        def ask(path: str, *more: Any) -> Any:
            found = method(path, *more)
            if self._after(f"{name} {path}"):
                self._host = self._without
                if self._fails:
                    raise HostError("No such device")
            return found

        return ask


@pytest.mark.parametrize(
    ("detector", "asked", "more", "moment", "fails"),
    [
        ("usb", {"vendor": "0403"}, {}, "names /sys/bus/usb/devices", False),
        ("usb", {"vendor": "0403", "serial": "A17"}, {}, "text /sys/bus/usb/devices/1-2/idVendor", False),
        ("pci", {"class": "02"}, {"measure": "sriov_numvfs"}, "names /sys/bus/pci/devices", False),
        ("pci", {"class": "02"}, {"measure": "sriov_numvfs"}, "text /sys/bus/pci/devices/0000:02:00.0/class", False),
        ("nic", {}, {"measure": "speed"}, "resolve /sys/class/net/eth1/device", False),
        ("nic", {}, {"measure": "speed", "fallback": 9}, "resolve /sys/class/net/eth1/phy80211", False),
        ("disk", {}, {"measure": "size"}, "names /sys/block", False),
        ("disk", {}, {"measure": "size", "fallback": 9}, "text /sys/block/sdb/device/wwid", False),
        ("usb", {"vendor": "0403"}, {}, "text /sys/bus/usb/devices/1-2/idVendor", True),
        ("pci", {"class": "02"}, {"measure": "sriov_numvfs"}, "text /sys/bus/pci/devices/0000:02:00.0/class", True),
        ("disk", {}, {"measure": "size", "fallback": 9}, "text /sys/block/sdb/size", True),
    ],
)
def test_a_device_that_vanishes_while_it_is_looked_at_does_not_count(
    detector: str, asked: dict[str, str], more: dict[str, Any], moment: str, fails: bool
) -> None:
    stays = merge(
        usb_device("1-1"),
        pci_nic("eth0", "0000:01:00.0"),
        disk("sda", "/sys/devices/pci0000:00/0000:00:17.0/host1"),
    )
    goes = merge(
        usb_device("1-2"),
        pci_nic("eth1", "0000:02:00.0"),
        disk("sdb", "/sys/devices/pci0000:00/0000:00:17.0/host2", number="8:16"),
    )
    seen: list[str] = []

    def after(call: str) -> bool:
        seen.append(call)
        return call == moment

    host: Any = Vanishing(machine(stays, goes), machine(stays), after, fails)
    reading = look(host, detector, asked, **more)
    assert moment in seen
    assert isinstance(reading, Quantity)
    assert len(reading.evidence) == 1
    alone = look(machine(stays), detector, asked, **more)
    assert isinstance(alone, Quantity)
    assert (reading.value, reading.evidence) == (alone.value, alone.evidence)


@pytest.mark.parametrize(
    ("when", "concerns"),
    [
        ({"dmi.product_name": "PowerEdge R75*"}, True),
        ({"dmi.product_name": "ProLiant*"}, False),
        ({"dmi.product_name": "PowerEdge*", "arch": "aarch64"}, False),
        ({"dmi.board_name": ""}, True),
        ({"arch": "x86_64"}, True),
        ({"node_name": "gpu-*"}, True),
        ({"node_name": "gpu-2"}, False),
        ({"path": "/dev/kvm"}, True),
        ({"path": "/dev/sgx"}, False),
        ({"devicetree.compatible": "raspberrypi,*"}, True),
        ({"devicetree.compatible": "nvidia,*"}, False),
        ({"dmi.product_serial": "*"}, None),
    ],
)
def test_when(when: dict[str, str], concerns: bool | None) -> None:
    parts = {
        "files": {
            "/sys/class/dmi/id/product_name": "PowerEdge R750\n",
            "/proc/device-tree/compatible": "raspberrypi,4-model-b\0brcm,bcm2711\0",
            "/dev/kvm": "",
        },
        "errors": {"/sys/class/dmi/id/product_serial": "EACCES"},
    }
    tests = tuple(Test(key, (Glob(text),), text) for key, text in when.items())
    reading = read_resource(resource("usb", when=tests), machine(parts, usb_device()), "gpu-1")
    expected = {True: Quantity, False: Absent, None: Unknown}[concerns]
    assert isinstance(reading, expected)
    if concerns is False:
        assert isinstance(reading, Absent)
        assert reading.reason.startswith(f"does not concern this machine: {[*when][-1]} is ")
    if isinstance(reading, Unknown):
        assert reading.reason.startswith("when: dmi.product_serial: /sys/class/dmi/id/product_serial could not be read")

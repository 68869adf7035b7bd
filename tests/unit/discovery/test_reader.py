"""One resource's reading: exact arithmetic, fallbacks, `when`, and devices that disappear."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.discovery.reader import read_resource
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.errors import Cause
from capacityd.model.quantity import LARGEST_QUANTITY, is_storable
from capacityd.model.reading import Absent, Contribution, Quantity, Unknown
from capacityd.schema.config import Resource, Table
from capacityd.schema.matchers import GlobMatcher, KeyMatcher
from capacityd.schema.setting_types import Reserve
from capacityd.schema.units import UNITS
from tests.support.machines import (
    Recording,
    disk,
    errors,
    files,
    machine,
    merge,
    pci_function,
    pci_nic,
    pci_path,
    usb_device,
    usb_hub,
    usb_path,
)
from tests.support.readings import outcome, quantity, read, resource

SIZE = UNITS["size"]
GIB, MBITS = "GiB", "Mbit/s"


def disks(sizes: Sequence[int]) -> RecordedHost:
    """A machine with one disk for each size. sizes: in sectors."""
    return machine(
        *(disk(f"sd{n}", f"/sys/devices/platform/d{n}", s * 512, number=f"8:{n}") for n, s in enumerate(sizes))
    )


@given(
    sectors=st.lists(st.integers(1, 2**45), min_size=1, max_size=5),
    reduce=st.sampled_from(["sum", "min", "max"]),
    unit=st.sampled_from(sorted(SIZE)),
    slots=st.integers(1, 7),
    reserve=st.one_of(
        st.integers(0, 10**6).map(Reserve),
        st.integers(0, 99).map(lambda percent: Reserve(percent=percent)),
    ),
)
def test_quantity_is_exact(sectors: list[int], reduce: str, unit: str, slots: int, reserve: Reserve) -> None:
    """The quantity is floor(reduce(measure x slots) - reserve) in the resource's unit, and at least 0."""
    more = {"measure": "size", "unit": unit, "reduce": reduce, "slots": slots, "reserve": reserve}
    reading = read(disks(sectors), "disk", **more)
    shares = [Fraction(s * 512 * slots, SIZE[unit]) for s in sectors]
    total: Fraction = {"sum": sum, "min": min, "max": max}[reduce](shares)  # type: ignore[operator]
    exact = max(0, floor(total - reserve.units - total * Fraction(reserve.percent, 100)))
    if exact > LARGEST_QUANTITY or not is_storable(exact):
        assert isinstance(reading, Unknown)
        return
    assert isinstance(reading, Quantity)
    assert reading.value == exact
    assert bool(reading.warning) == (exact == 0)
    assert [float(share) for share in shares] == pytest.approx([c.amount for c in reading.contributions], abs=0.001)


def test_less_than_one_unit_is_0_with_a_warning_and_not_absent() -> None:
    reading = read(disks([2**21 - 1]), "disk", measure="size", unit=GIB)  # one sector less than 1 GiB
    assert isinstance(reading, Quantity)
    assert (reading.value, reading.contributions) == (0, (Contribution("sd0", 1.0),))
    assert "less than 1 GiB" in reading.warning


def test_more_than_kubernetes_can_count_is_unknown() -> None:
    reading = read(disks([2**54] * 2), "disk", measure="size", unit="B")  # 2**64 bytes
    assert isinstance(reading, Unknown)
    assert reading.cause is Cause.TOO_LARGE
    assert "use a larger unit" in reading.reason
    assert quantity(disks([2**54] * 2), "disk", measure="size", unit=GIB) == 2**34
    not_storable = Resource("example.com/x", "static", (Table(settings={"quantity": 2**60 + 1}),))
    assert isinstance(read_resource(not_storable, machine(), "n1"), Unknown)


@pytest.mark.parametrize(("numbers", "reserve", "value"), [((4, 5), 2, 7), ((0,), 0, 0)])
def test_values_of_several_tables_add_up_without_a_warning(numbers: tuple[int, ...], reserve: int, value: int) -> None:
    tables = tuple(Table(settings={"quantity": n}) for n in numbers)
    reading = read_resource(Resource("example.com/x", "static", tables, reserve=Reserve(reserve)), machine(), "node")
    assert reading == Quantity(value, tuple(Contribution("configuration", n) for n in numbers))


def test_fallback_replaces_a_missing_measure_only() -> None:
    host = machine(pci_nic("eth0", "0000:01:00.0", speed="10000"), pci_nic("eth1", "0000:01:00.1", speed="-1"))
    assert isinstance(read(host, "nic", measure="speed", unit=MBITS), Unknown)
    reading = read(host, "nic", measure="speed", unit=MBITS, fallback=10**9)
    assert isinstance(reading, Quantity)
    assert reading.value == 11_000
    assert reading.contributions[1] == Contribution("eth1", 1000, "fallback: its driver does not report its speed")
    broken = machine(pci_nic(speed="10000"), errors({"/sys/devices/pci0000:01/0000:01:00.0/vendor": "EIO"}))
    assert isinstance(read(broken, "nic", {"vendor": "8086"}, measure="speed", unit=MBITS, fallback=10**9), Unknown)


def test_the_reason_for_absent_says_whether_there_are_devices_of_the_detector() -> None:
    host = machine(usb_device("1-1", serial="A17"), usb_device("1-2", "0529", serial="B03"), usb_hub("1-3"))
    wanted = resource("usb", {"vendor": "0529"}, excepts=({"serial": "B03"},))
    assert read_resource(wanted, host, "n1") == Absent("none of 3 usb devices matches")
    assert read_resource(wanted, machine(), "n1") == Absent("the machine has no usb device")


def test_unknown_names_the_first_device_and_how_many_more() -> None:
    broken = [errors({f"{usb_path(f'1-{n}')}/serial": "EIO"}) for n in (1, 2, 3)]
    reading = read(machine(*(usb_device(f"1-{n}") for n in (1, 2, 3)), *broken), "usb", {"serial": "*"})
    assert isinstance(reading, Unknown)
    assert reading.reason.startswith("1-1: serial: /sys/bus/usb/devices/1-1/serial could not be read: ")
    assert reading.reason.endswith("(and 2 more)")


# Values with which `when` is compared: readable ones, damaged ones, and one that cannot be read.
MACHINE_FACTS: Recording = {
    "files": {
        "/sys/class/dmi/id/product_name": "PowerEdge R750\n",
        "/sys/class/dmi/id/board_name": "\0\x01 0X3D66 \x7f\n\x1f",
        "/sys/class/dmi/id/chassis_asset_tag": "\x02\x01\n",
        "/sys/class/dmi/id/sys_vendor": "Dell\x1b[2J Inc.\n",
        "/sys/class/dmi/id/bios_vendor": "\udcff\udcff",
        "/proc/device-tree/compatible": "raspberrypi,4-model-b\0brcm,bcm2711\0",
        "/dev/kvm": "",
    },
    "errors": {"/sys/class/dmi/id/product_serial": "EACCES"},
}


@pytest.mark.parametrize(
    ("when", "applies"),  # None: it is unknown whether the resource applies
    [
        ({"dmi.product_name": "PowerEdge R75*"}, True),
        ({"dmi.product_name": "PowerEdge*", "arch": "aarch64"}, False),
        ({"dmi.board_version": ""}, True),
        ({"dmi.board_name": "0X3D66"}, True),  # control characters at either end are removed
        ({"dmi.chassis_asset_tag": ""}, True),
        ({"dmi.sys_vendor": "Dell*"}, None),
        ({"dmi.bios_vendor": "*"}, None),
        ({"dmi.sys_vendor": "Dell*", "arch": "aarch64"}, False),
        ({"arch": "x86_64"}, True),
        ({"node_name": "gpu-*"}, True),
        ({"node_name": "gpu-2"}, False),
        ({"path": "/sys/bus/usb"}, True),
        ({"path": "/sys/bus/pci/devices/0000:03:00.0"}, False),
        ({"devicetree.compatible": "raspberrypi,*"}, True),
        ({"devicetree.compatible": "nvidia,*"}, False),
        ({"dmi.product_serial": "*"}, None),
    ],
)
def test_when_decides_whether_a_resource_applies(when: dict[str, str], applies: bool | None) -> None:
    tests = tuple(KeyMatcher(key, (GlobMatcher(text),), text) for key, text in when.items())
    reading = read_resource(resource("usb", when=tests), machine(MACHINE_FACTS, usb_device()), "gpu-1")
    assert isinstance(reading, {True: Quantity, False: Absent, None: Unknown}[applies])
    if isinstance(reading, Absent):
        assert reading.reason == f"does not apply to this machine: {[*when][-1]} does not match"
    if isinstance(reading, Unknown):
        assert reading.reason.startswith(f"when: {next(iter(when))}: /sys/class/dmi/id/")


@pytest.mark.parametrize("pattern", ["gpu-1", "*"])
def test_the_nodes_name_is_not_taken_from_the_host_name(pattern: str) -> None:
    """The host name of this machine is gpu-1 too, but the Node may have another name."""
    tests = (KeyMatcher("node_name", (GlobMatcher(pattern),), pattern),)
    reading = read_resource(resource("usb", when=tests), machine(MACHINE_FACTS, usb_device()), node_name=None)
    assert isinstance(reading, Unknown)
    assert reading.reason.startswith("when: node_name: the Node's name is not known; give it with --node-name")


@pytest.mark.parametrize(
    ("paths", "applies"),
    [
        (("/dev/sgx", "/dev/kvm"), True),  # a recording does not say whether /dev/sgx exists
        (("/dev/sgx", "/sys/class/none"), None),
        (("/sys/class/none", "/sys/bus/none"), False),
    ],
)
def test_one_of_several_paths_that_exists_is_enough(paths: tuple[str, ...], applies: bool | None) -> None:
    tests = (KeyMatcher("path", tuple(map(GlobMatcher, paths)), ""),)
    reading = read_resource(resource("usb", when=tests), machine(MACHINE_FACTS, usb_device()), "gpu-1")
    assert isinstance(reading, {True: Quantity, False: Absent, None: Unknown}[applies])


GPU = pci_function("0000:3b:00.0", driver="nvidia")
GPU_PATH = pci_path("0000:3b:00.0")
# Two GPUs, of which one has links to a driver and to an IOMMU group.
LINKED = merge(
    GPU,
    pci_function("0000:3c:00.0", driver=None),
    {"links": {f"{GPU_PATH}/iommu_group": "/sys/kernel/iommu_groups/12"}, "folders": ["/sys/kernel/iommu_groups/12"]},
    files({f"{GPU_PATH}/power/control": "auto\n"}),
)


@pytest.mark.parametrize(
    ("attributes", "count"),  # the attributes of a table, and how many of the two GPUs it matches
    [
        ({"driver": ""}, 1),
        ({"driver": "nvidia"}, 1),
        ({"driver": "*"}, 1),
        ({"iommu_group": "12"}, 1),
        ({"iommu_group": "1"}, 0),
        ({"power/control": "auto"}, 1),
        ({"physfn": ""}, 2),
    ],
)
def test_an_attribute_may_be_a_link_whose_value_is_its_last_part(attributes: dict[str, str], count: int) -> None:
    keys = {f"attributes.{name}": value for name, value in attributes.items()}
    assert outcome(read(machine(LINKED), "pci", keys)) == (count or "absent")
    assert outcome(read(machine(LINKED), "pci", {}, excepts=(keys,))) == ((2 - count) or "absent")


def test_an_attribute_that_is_a_folder_or_a_dangling_link_is_unknown() -> None:
    folder = read(machine(LINKED), "pci", {"attributes.power": "auto"})
    assert isinstance(folder, Unknown)
    assert "0000:3b:00.0/power is a folder, or the device does not respond" in folder.reason
    dangling = merge(GPU, {"links": {f"{GPU_PATH}/iommu_group": "/sys/kernel/iommu_groups/12"}})
    assert isinstance(read(machine(dangling), "pci", {"attributes.iommu_group": ""}), Unknown)

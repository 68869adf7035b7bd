"""What devices prints: TOML that matches one device alone, or all of a kind, whatever devices call themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacityd.cli import run
from capacityd.config import load
from capacityd.host import Host
from capacityd.host.recorded import RecordedHost
from capacityd.inventory import Listed, listing
from capacityd.inventory.names import readable
from capacityd.inventory.table import table_of
from capacityd.model import Absent, DeviceDetector, Key, Quantity, Reading
from capacityd.reading import read_resource
from tests.unit.looking import device_detector
from tests.unit.machines import (
    Recording,
    bare,
    disk,
    errors,
    machine,
    merge,
    nic,
    nvme,
    pci_function,
    pci_nic,
    routes,
    usb_device,
    usb_hub,
    usb_path,
    virtio_nic,
)
from tests.unit.tour import recording, recordings

DETECTORS = ("disk", "nic", "pci", "usb")
words = st.sampled_from(["A17", "a17", "A*", "A?7", "[A]17", "[!x]", '"', "\\", "\x1b[0m", "ü", "'", "\udcff", "", " "])
maybe = st.none() | words
ids = st.sampled_from(["0403", "0529", "04aB"])


@st.composite
def machines(draw: st.DrawFn) -> RecordedHost:
    """Devices of all detectors, many of them alike, some that say nothing or can't be read."""
    usb = draw(st.lists(st.tuples(ids, ids, maybe, maybe), max_size=5))
    parts = [usb_device(f"1-{n}", v, p, s, m, number=n + 1) for n, (v, p, s, m) in enumerate(usb, 1)]
    parts += [usb_hub("1-9", 30)] if draw(st.booleans()) else []
    functions = draw(st.lists(st.tuples(ids, ids, st.sampled_from(["030000", "120000", "060400"])), max_size=4))
    parts += [pci_function(f"0000:3b:00.{n}", v, d, c) for n, (v, d, c) in enumerate(functions)]
    if len(functions) > 1 and draw(st.booleans()):
        parts.append(pci_function("0000:3b:01.0", "0403", "0403", physfn="0000:3b:00.0"))
    speeds = st.sampled_from([(10**9,), (10**9, 10**10), ()])
    for n, (vendor, speed) in enumerate(draw(st.lists(st.tuples(ids, speeds), max_size=3))):
        parts.append(pci_nic(f"eth{n}", f"0000:0{n}:00.0", vendor, "1572", link_speeds=speed, number=n + 2))
    parts += [nic("br0", devtype="bridge", number=20), nic("lo", number=21)] if draw(st.booleans()) else []
    parts += [routes("eth0")] if draw(st.booleans()) else []
    for n, (serial, size) in enumerate(draw(st.lists(st.tuples(words, st.integers(1, 2**40)), max_size=3))):
        parts.append(nvme(f"nvme{n}n1", serial=serial, wwid=None, size=size * 512, number=f"259:{n}"))
    parts += [
        disk(f"sd{'ab'[n]}", f"/sys/devices/x/{n}:0:0:0", number=f"8:{16 * n}") for n in range(draw(st.integers(0, 2)))
    ]
    parts += [disk("sdz", "/sys/devices/x/9:0:0:0", 0, number="8:240")] if draw(st.booleans()) else []
    broken = draw(
        st.sampled_from(["", *(f"{usb_path('1-1')}/{name}" for name in ("serial", "idVendor", "bDeviceClass"))])
    )
    return machine(*parts, errors({broken: "EIO"} if broken and usb else {}))


def reading_of(folder: Path, line: str, host: Host) -> Reading:
    path = folder / "c.toml"
    path.write_text(f'[resources."example.com/x"]\n{line}\n', encoding="utf-8")
    (resource,) = load(str(path)).require().resources
    return read_resource(resource, host, "n1")


def counted(folder: Path, line: str, host: Host) -> list[str]:
    reading = reading_of(folder, line, host)
    assert isinstance(reading, Quantity), (line, reading)
    return [e.device for e in reading.evidence]


def listed(detector: str, host: Host) -> list[Listed]:
    return listing(host, device_detector(detector))


@given(machines())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_line_matches_one_device_and_no_other_or_all_that_are_alike(tmp_path: Path, host: RecordedHost) -> None:
    for detector in DETECTORS:
        for device in listed(detector, host):
            if device.own.count == 1:
                assert counted(tmp_path, device.own.line, host) == [device.name]
            else:  # what would tell it from others can't be read, or can't be asked for
                assert device.own.why or device.unread or device.own.count is None
            if device.kind.count is not None:
                names = counted(tmp_path, device.kind.line, host)
                assert device.name in names
                assert len(names) == device.kind.count


@pytest.mark.parametrize("recorded", recordings().values(), ids=recordings())
def test_each_device_of_the_documentation_s_machines_has_its_line(tmp_path: Path, recorded: Recording) -> None:
    host = RecordedHost(recorded)
    for detector in DETECTORS:
        for device in listed(detector, host):
            assert counted(tmp_path, device.own.line, host) == [device.name]
            assert len(counted(tmp_path, device.kind.line, host)) == device.kind.count


def test_the_tour_has_a_dozen_devices_each_with_a_line_that_matches_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a new user would: look, copy a line as it is printed, probe."""
    machine_file = tmp_path / "machine.json"
    machine_file.write_text(json.dumps(recording()))
    tried = 0
    for detector in DETECTORS:
        assert run(["devices", detector, "--machine", str(machine_file)]) == 0
        for line in capsys.readouterr().out.splitlines():
            toml, mark, what = line.strip().partition("  # ")
            if not (toml.startswith(f"{detector} = ") and mark):
                continue
            config = tmp_path / "c.toml"
            config.write_text(f'[resources."example.com/x"]\n{line}\n')
            assert run(["probe", "--json", "--machine", str(machine_file), "--config", str(config)]) == 0
            (resource,) = json.loads(capsys.readouterr().out)["resources"]
            names = [e["device"] for e in resource["evidence"]]
            if what.startswith("all "):
                assert len(names) == int(what.split()[1].rstrip(","))
            else:
                assert names == [what]
                tried += 1
    assert tried == 12


def test_what_a_default_leaves_out_is_named() -> None:
    (hub,) = listed("usb", machine(usb_hub("1-1")))
    assert "hub = true" in hub.own.line
    assert "hub = true" in hub.kind.line


def test_what_no_table_can_match_is_said() -> None:
    """An empty card reader has no size, and only disks with a size are looked for."""
    (empty,) = listed("disk", machine(disk("sda", size=0)))
    assert (empty.own.line, empty.own.why) == ("", 'it has no size, and only size = ">0B" is looked for')
    table = table_of(device_detector("disk"), [empty])
    assert table.lines == (("", f"sda can't be matched: {empty.own.why}"),)


def test_a_device_that_hides_its_serial_number_is_told_apart_by_its_port(tmp_path: Path) -> None:
    """Were 1-2 asked for by its serial number alone, nobody could tell whether 1-1 has the same."""
    host = machine(usb_device("1-1"), usb_device("1-2"), errors({f"{usb_path('1-1')}/serial": "EIO"}))
    one, other = listed("usb", host)
    assert one.unread.keys() == {"serial"}
    assert counted(tmp_path, other.own.line, host) == ["1-2"]
    assert other.kind.count == 2


def test_names_are_the_database_s_else_the_device_s_own() -> None:
    database = {"hardware_names": {"usb:v0403p6001": {"ID_VENDOR_FROM_DATABASE": "Future Technology Devices Co., Ltd"}}}
    properties = {"ID_VENDOR_FROM_DATABASE": "Maker, Inc.", "ID_MODEL_FROM_DATABASE": "Maker One"}
    host = machine(
        usb_device("1-1"),
        usb_device("1-2", properties=properties),
        usb_device("1-3", "1234", model="Thing", manufacturer="Thing Works"),
        usb_device("1-4", "1234", "5678", model=None, manufacturer=None),
        database,
    )
    assert {d.name: d.title for d in listed("usb", host)} == {
        "1-1": "Future Technology Devices FT232R USB UART",
        "1-2": "Maker One",
        "1-3": "Thing",
        "1-4": "",
    }


def test_an_interface_is_called_what_its_hardware_is() -> None:
    names = {
        "pci:v00008086d00001572": {"ID_MODEL_FROM_DATABASE": "X710"},
        "pci:v00001AF4d00001041": {"ID_MODEL_FROM_DATABASE": "Virtio network device"},
    }
    host = machine(pci_nic("eth0"), virtio_nic("eth1"), nic("lo", number=9), {"hardware_names": names})
    assert {d.name: d.model for d in listed("nic", host)} == {"eth0": "X710", "eth1": "Virtio network device", "lo": ""}


@pytest.mark.parametrize(
    ("value", "dimension", "said"),
    [
        (1000204886016, "size", "931.5 GiB"),
        (512, "size", "512 B"),
        (2**50 * 5000, "size", "5000 PiB"),
        (2**40 - 1, "size", "1 TiB"),
        (0, "size", "0 B"),
        (25 * 10**9, "speed", "25 Gbit/s"),
        (2_500_000_000, "speed", "2.5 Gbit/s"),
        (10**7, "speed", "10 Mbit/s"),
        (4096, "number", "4096"),
    ],
)
def test_measures_are_readable(value: int, dimension: str, said: str) -> None:
    assert readable(value, dimension) == said


def test_a_table_has_the_columns_that_matter() -> None:
    host = RecordedHost(recording())
    table = table_of(device_detector("nic"), listed("nic", host))
    assert table.heading == ("NIC", "DRIVER", "VENDOR", "DEVICE", "MAX_SPEED", "SPEED", "IS", "NAME")
    assert table.rows[0] == (
        *("eno1", "igb", "8086", "1533", "1 Gbit/s", "1 Gbit/s", "system"),
        "Intel I210 Gigabit Network Connection",
    )
    assert table.common == ("bus pci", "kind physical", "link up")


def test_a_detector_that_nobody_heard_of_gets_a_table_too() -> None:
    from capacityd.kinds import Amount, Choice, Flag, HexId, Text
    from capacityd.model import Device

    said: dict[str, dict[str, Any]] = {
        "a": {"name": "a", "id": "01", "sort": "x", "depth": 5 * 10**9, "new": True},
        "b": {"name": "b", "id": "01", "sort": "y", "new": False},
    }

    def key(kind: Any, name: str) -> Key:
        return Key(kind, lambda _, device: said[device.name].get(name), name)

    detector = DeviceDetector(
        name="well",
        about="wells",
        find=lambda _: [Device(f"/w/{name}", name) for name in said],
        keys={
            "name": key(Text(), "name"),
            "id": key(HexId(2), "id"),
            "sort": key(Choice(("x", "y")), "sort"),
            "depth": key(Amount("speed"), "depth"),
            "new": key(Flag(), "new"),
        },
        identity=("name",),
        alike=("id",),
    )
    table = table_of(detector, listing(machine(), detector))
    assert table.heading == ("WELL", "ID", "SORT", "DEPTH", "IS", "NAME")
    assert table.rows == (("a", "01", "x", "5 Gbit/s", "new", ""), ("b", "01", "y", "-", "", ""))
    assert [line for line, _ in table.lines] == [
        'well = { id = "01" }',
        'well = { name = "a" }',
        'well = { name = "b" }',
    ]


def test_of_a_thousand_alike_an_overview_shows_a_few() -> None:
    many = merge(*(usb_device(f"1-{n}", serial=f"S{n}", number=n + 1) for n in range(1, 1001)))
    host = RecordedHost(merge(bare(), many))
    found = listed("usb", host)
    few = table_of(device_detector("usb"), found, most=8)
    assert (len(few.rows), len(few.lines)) == (9, 9)
    assert [row[0] for row in few.rows[:3]] == ["1-1", "1-2", "1-3"]
    assert few.rows[-1][-1] == "992 more of these: capacityd devices usb"
    assert len(table_of(device_detector("usb"), found).rows) == 1000


def test_a_machine_without_devices_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.json").write_text(json.dumps(bare()))
    assert run(["devices", "usb", "--machine", str(tmp_path / "m.json")]) == 0
    assert capsys.readouterr().out.startswith("usb: none")
    assert isinstance(reading_of(tmp_path, "usb = {}", machine()), Absent)

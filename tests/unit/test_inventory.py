"""The line of TOML that devices prints for a device matches it and no other, whatever devices call themselves."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacityd.config import load
from capacityd.detectors import load as load_detector
from capacityd.inventory import listing
from capacityd.model import DeviceDetector, Quantity
from capacityd.reading import read_resource
from tests.unit.machines import disk, machine, usb_device, usb_hub

serials = st.none() | st.sampled_from(
    ["A17", "a17", "A*", "A?7", "[A]17", "[!x]", '"', "\\", "\x1b[0m", "ü", "'", "\udcff"]
)
devices = st.lists(st.tuples(st.sampled_from(["0403", "0529"]), st.sampled_from(["6001", "6010"]), serials), max_size=6)


def lines(detector: str, host: object) -> list[tuple[str, str]]:
    found = load_detector(detector)
    assert isinstance(found, DeviceDetector)
    return [(d.name, d.line) for d in listing(host, found)]  # type: ignore[arg-type]


def counted(tmp_path: Path, line: str, host: object) -> list[str]:
    path = tmp_path / "c.toml"
    path.write_text(f'[resources."example.com/x"]\n{line}\n', encoding="utf-8")
    (resource,) = load(str(path)).require().resources
    reading = read_resource(resource, host, "n1")  # type: ignore[arg-type]
    assert isinstance(reading, Quantity), (line, reading)
    return [e.device for e in reading.evidence]


@given(devices, st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_usb(tmp_path: Path, found: list[tuple[str, str, str | None]], hub: bool) -> None:
    parts = [usb_device(f"1-{n}", vendor, product, serial) for n, (vendor, product, serial) in enumerate(found, 1)]
    host = machine(*parts, *([usb_hub("1-9")] if hub else []))
    listed = lines("usb", host)
    assert len(listed) == len(found) + hub
    for name, line in listed:
        assert counted(tmp_path, line, host) == [name], line


def test_disks_without_anything_to_tell_them_by_are_told_by_name(tmp_path: Path) -> None:
    host = machine(disk("sda", number="8:0"), disk("sdb", number="8:16", at="/sys/devices/x/1:0:0:0"))
    for name, line in lines("disk", host):
        assert counted(tmp_path, line, host) == [name]


def test_what_a_default_leaves_out_is_named() -> None:
    ((_, line),) = lines("usb", machine(usb_hub("1-1")))
    assert "hub = true" in line

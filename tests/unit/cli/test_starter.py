"""`devices --toml` prints a starter: a configuration for the machine's devices, with the right numbers in comments."""

from __future__ import annotations

import re

from hypothesis import given

from capacityd.cli.inventory.starter import starter_configuration
from capacityd.detectors import detector_names, load_detector
from capacityd.discovery.reader import read_resource
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.host import Host
from capacityd.model.reading import Quantity
from capacityd.schema.device import DeviceDetector
from tests.support.configs import loaded
from tests.support.listings import list_devices
from tests.support.machines import disk, machine, nic, pci_function, pci_nic, routes, usb_device, usb_hub
from tests.support.tour import recording
from tests.unit.cli.test_inventory import machines

RESOURCE = re.compile(r'^# .* \((\d+)\): .*\n\[resources\."(.+?)"\]$', re.M)
"""Such as `# FTDI FT232R USB UART (1): 1-1`, and below it `[resources."example.com/usb-ft232r-usb-uart"]`."""
MEASURE = re.compile(r'^# (measure = ".*?")  # instead of a count; then expect = (\d+)(?:\n# (unit = ".*"))?$', re.M)
"""Such as `# measure = "size"  # instead of a count; then expect = 1`, and below it `# unit = "GiB"`."""


def detectors() -> list[DeviceDetector]:
    """The detectors that `devices` shows by default."""
    found = map(load_detector, detector_names())
    return [detector for detector in found if isinstance(detector, DeviceDetector) and detector.shown_by_default]


def starter(host: Host) -> str:
    return starter_configuration(host.hostname(), (list_devices(host, detector) for detector in detectors()))


def quantities(text: str, host: Host) -> dict[str, int]:
    """The quantities of the configuration's resources. Each must equal its `expect`."""
    by_name = {}
    for resource in loaded(text).require().resources:
        reading = read_resource(resource, host, "n1")
        assert isinstance(reading, Quantity), (resource.name, reading, text)
        assert reading.value == resource.expect
        by_name[resource.name] = reading.value
    return by_name


@given(machines())
def test_the_numbers_in_comments_and_in_expect_are_right(host: RecordedHost) -> None:
    text = starter(host)
    assert quantities(text, host) == {name: int(count) for count, name in RESOURCE.findall(text)}
    # Follow the advice of each comment about a measure, unless its resource is commented out.
    for block in text.split("\n\n"):
        for measure, total, unit in MEASURE.findall(block):
            if '\n[resources."' not in block:
                continue
            measured = re.sub("^expect = [0-9]+", f"{measure}\n{unit}\nexpect = {total}", block, flags=re.M)
            assert [*quantities(measured, host).values()] == [int(total)], measured


def test_devices_that_are_not_suggested_are_named() -> None:
    text = starter(machine(pci_function(), pci_function("0000:00:00.0", device_class="060000", device="1234")))
    assert "# left out because of class: 0000:00:00.0\n" in text
    assert 'pci = { vendor = "10de", device = "20b5" }\n' in text


def test_the_systems_disk_is_excluded_from_its_kind() -> None:
    other_disk = machine(disk("sdb", "/sys/devices/x/1:0:0:0"))._recording["files"]
    host = RecordedHost({**recording(), "files": {**recording()["files"], **other_disk}})
    assert "system = false" in starter(host)
    quantities(starter(host), host)


def test_a_measure_with_less_than_one_unit_is_not_suggested() -> None:
    for size, totals in ((2**30 - 512, []), (2**30, [1])):
        text = starter(machine(disk("sdb", "/sys/devices/x/1:0:0:0", size=size)))
        assert "disk = {" in text
        assert [int(total) for measure, total, _ in MEASURE.findall(text) if "size" in measure] == totals


def test_a_resource_of_unknown_quantity_is_commented_out() -> None:
    host = machine(pci_nic())  # without a default route, the interface may be the system's
    text = starter(host)
    assert "# commented out, because the count is unknown: eth0: system: " in text
    assert '\n# [resources."example.com/nic-8086-1572"]\n# nic = { vendor = "8086"' in text
    assert quantities(text, host) == {}


def test_resource_names_are_valid_and_unique() -> None:
    models = {
        "0001": "Ünïcode [A] (B) €",
        "0002": "!!!",
        "0003": "x" * 200,
        "0004": None,
        "0005": "Same",
        "0006": "Same",
        "0007": 'An\nother"] \x1b[1m of words each of them is short',
    }
    devices = [usb_device(f"1-{id_[-1]}", id_, model=model, manufacturer=None) for id_, model in models.items()]
    host = machine(*devices, usb_hub("1-9"))
    names = "usb-n-code usb usb-2 usb-0004-6001 usb-same usb-same-2 usb-an-nother-x1b-1m-of-words-each-of-them-is"
    assert quantities(starter(host), host) == dict.fromkeys((f"example.com/{name}" for name in names.split()), 1)


def test_for_a_machine_without_devices_nothing_is_suggested() -> None:
    text = starter(machine())
    assert quantities(text, machine()) == {}
    assert text.count("# this machine has none\n") == len(detectors())
    assert quantities(starter(machine(nic("lo"), routes("lo"))), machine()) == {}

"""devices --toml: what it prints is without mistakes and gives the counts that its comments tell, on any machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from capacityd.cli import run
from capacityd.config import load
from capacityd.detectors import load as load_detector
from capacityd.detectors import names
from capacityd.host import Host
from capacityd.host.recorded import RecordedHost
from capacityd.inventory.starter import starter
from capacityd.model import DeviceDetector, Quantity
from capacityd.reading import read_resource
from tests.unit.machines import Recording, disk, machine, nic, pci_function, pci_nic, routes, usb_device, usb_hub
from tests.unit.test_inventory import machines
from tests.unit.tour import MACHINE, recording, recordings

BLOCK = re.compile(r'^# .* \((\d+)\): .*\n\[resources\."(.+?)"\]$', re.M)
TOTAL = re.compile(r'^# (measure = ".*?")  # (\d+) ?(.*), instead of their number$', re.M)


def listed() -> list[DeviceDetector]:
    """The detectors whose devices are listed without being asked for."""
    return [d for name in names() if isinstance(d := load_detector(name), DeviceDetector) and d.listed]


def suggested(host: Host) -> str:
    return starter(host, listed())


def amounts(folder: Path, text: str, host: Host) -> dict[str, int]:
    path = folder / "starter.toml"
    path.write_text(text, encoding="utf-8")
    found = {}
    for resource in load(str(path)).require().resources:
        reading = read_resource(resource, host, "n1")
        assert isinstance(reading, Quantity), (resource.name, reading, text)
        found[resource.name] = reading.value
    return found


@given(machines())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_gives_what_its_comments_tell(tmp_path: Path, host: RecordedHost) -> None:
    text = suggested(host)
    assert amounts(tmp_path, text, host) == {name: int(count) for count, name in BLOCK.findall(text)}
    # The measure that a comment offers, taken at its word: all that stays commented out otherwise must be uncommented.
    for block in text.split("\n\n"):
        for measure, total, unit in TOTAL.findall(block):
            taken = TOTAL.sub(r"\1", block, count=1).replace(f'# unit = "{unit}"', f'unit = "{unit}"')
            if '\n[resources."' in block:
                assert [*amounts(tmp_path, taken, host).values()] == [int(total)], (measure, taken)


@pytest.mark.parametrize("recorded", recordings().values(), ids=recordings())
def test_gives_it_on_the_documentation_s_machines(tmp_path: Path, recorded: Recording) -> None:
    text = suggested(RecordedHost(recorded))
    assert amounts(tmp_path, text, RecordedHost(recorded)) == {name: int(n) for n, name in BLOCK.findall(text)}


def test_of_the_tour(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a new user would: a file of what it prints, checked and probed unchanged."""
    assert run(["devices", "--toml", "--machine", str(MACHINE)]) == 0
    config = tmp_path / "c.toml"
    config.write_text(capsys.readouterr().out)
    assert run(["config", "check", "--config", str(config)]) == 0
    capsys.readouterr()
    assert run(["probe", "--json", "--config", str(config), "--machine", str(MACHINE)]) == 0
    found = {r["name"]: r["quantity"] for r in json.loads(capsys.readouterr().out)["resources"]}
    assert found == {
        "example.com/disk-samsung-mzql23t8hcls-00a07": 1,
        "example.com/nic-ethernet-controller-x710-for-10gbe-sfp": 1,
        "example.com/usb-hasp-copy-protection-dongle": 4,
        "example.com/usb-mouse": 1,
    }


def test_leaves_out_what_nobody_hands_out_and_says_so() -> None:
    text = suggested(RecordedHost(recording()))
    assert "# left out for system: sda\n" in text
    assert "# left out for system: eno1\n" in text
    assert "# left out for hub: 1-1\n" in text
    text = suggested(machine(pci_function(), pci_function("0000:00:00.0", device_class="060000", device="1234")))
    assert "# left out for class: 0000:00:00.0\n" in text
    assert 'pci = { vendor = "10de", device = "20b5" }\n' in text


def test_the_same_ids_in_another_class_are_told_apart(tmp_path: Path) -> None:
    host = machine(pci_function(), pci_function("0000:3b:00.1", device_class="010400"))
    text = suggested(host)
    assert 'class = ["03", "04", "0b", "0d", "10", "12"]' in text
    assert [*amounts(tmp_path, text, host).values()] == [1]


def test_the_system_s_disk_is_no_scratch_space_though_it_is_like_the_others(tmp_path: Path) -> None:
    host = RecordedHost(
        {**recording(), "files": {**recording()["files"], **machine(disk("sdb", "/sys/devices/x/1:0:0:0"))._files}}
    )
    assert "system = false" in suggested(host)
    amounts(tmp_path, suggested(host), host)


def test_what_can_t_be_told_is_commented_out(tmp_path: Path) -> None:
    host = machine(pci_nic())  # without a default route, so it may be the system's
    text = suggested(host)
    assert "# not counted, because that can't be told now: eth0: system: can't tell which interfaces" in text
    assert '\n# [resources."example.com/nic-8086-1572"]\n# nic = { vendor = "8086"' in text
    assert amounts(tmp_path, text, host) == {}


def test_names_are_names_whatever_devices_call_themselves(tmp_path: Path) -> None:
    devices = [
        usb_device("1-1", "0001", model="Ünïcode [A] (B) €", manufacturer=None),
        usb_device("1-2", "0002", model="!!!", manufacturer=None),
        usb_device("1-3", "0003", model="x" * 200, manufacturer=None),
        usb_device("1-4", "0004", model=None, manufacturer=None),
        usb_device("1-5", "0005", model="Same", manufacturer=None),
        usb_device("1-6", "0006", model="Same", manufacturer=None),
        usb_device("1-7", "0007", model='An\nother"] \x1b[1m', manufacturer=None),
    ]
    host = machine(*devices, usb_hub("1-9"))
    found = amounts(tmp_path, suggested(host), host)
    assert [*found.values()] == [1] * 7
    assert {"example.com/usb-same", "example.com/usb-same-2", "example.com/usb-0004-6001"} <= found.keys()


def test_an_empty_machine_is_a_good_configuration(tmp_path: Path) -> None:
    text = suggested(machine())
    assert amounts(tmp_path, text, machine()) == {}
    assert text.count("# this machine has none\n") == len(listed())
    assert amounts(tmp_path, suggested(machine(nic("lo"), routes("lo"))), machine()) == {}


def test_json_does_not_go_with_toml(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["devices", "--toml", "--json"]) == 2
    assert "leave out --json" in capsys.readouterr().err

"""Every detector on every recorded machine: the answer to each need, and every device with its values.

A need is a resource that users want to publish (needs.toml). A failure shows which rule counted or excluded a device.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

from capacityd.cli.inventory.selectors import exact_toml_value
from capacityd.detectors.udev import find_in_subsystems
from capacityd.discovery.reader import value_of
from capacityd.host.recording.format import read_recording
from capacityd.host.recording.privacy import without_identifiers
from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.errors import HostError
from capacityd.schema.device import DeviceDetector
from capacityd.schema.value_types import Text
from tests.corpus.described import host, machines, needs, read, resources, resources_of_page, unlike, why
from tests.corpus.emulator import unescaped
from tests.corpus.unreadable import run
from tests.support.forked import can_be_alone
from tests.support.listings import list_devices
from tests.support.readings import device_detector, device_detectors, outcome
from tests.support.text import squeezed

SEED = 20261123
ALIAS = "i2c-adapter"  # another name for devices of the bus i2c
# Each machine has hundreds of udev devices that no need counts.
DETECTORS = [detector.name for detector in device_detectors() if detector.name != "udev"]
DESCRIBED = sorted({detector for machine in machines().values() for detector in machine.devices})
"""The detectors of whose devices the machines have lists."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("needs")


@pytest.mark.parametrize("need", needs())
@pytest.mark.parametrize("machine", machines())
def test_each_need_has_its_quantity_on_each_machine(machine: str, need: str, folder: Path) -> None:
    reading = read(machine, resources(folder)[need])
    assert outcome(reading) == machines()[machine].truth[need], why(reading)


@pytest.mark.parametrize("machine", machines())
def test_the_recipes_on_the_page_are_right_on_each_machine(machine: str, tmp_path: Path) -> None:
    """All recipes are in one configuration, as in one image for a fleet."""
    known = resources_of_page(tmp_path)
    not_recorded = {name: "unknown" for name, resource in known.items() if resource.detector == "file"}
    expected = {**machines()[machine].page, **not_recorded}
    assert expected.keys() <= known.keys()
    wrong = []
    for name, resource in known.items():
        reading = read(machine, resource)
        if outcome(reading) != expected.get(name, "absent"):
            wrong.append(f"{name}: {why(reading)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("detector", DESCRIBED)
@pytest.mark.parametrize("machine", machines())
def test_each_machine_has_its_devices(machine: str, detector: str) -> None:
    wrong = unlike(machine, detector, machines()[machine].devices.get(detector, []))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("machine", machines())
def test_no_text_of_a_device_is_taken_for_a_mistake(machine: str) -> None:
    """Names and serial numbers contain commas, slashes, brackets and other special characters."""
    recorded = host(machine)
    for detector in device_detectors():
        kinds = {name: key.kind for name, key in detector.keys.items() if isinstance(key.kind, Text)}
        for device in [*detector.find(recorded)]:
            for key, kind in kinds.items():
                with suppress(HostError):
                    value = value_of(recorded, detector, device, key)
                    for text in value if isinstance(value, tuple) else (value,):
                        # Other characters are an error in a configuration.
                        if isinstance(text, str) and text and text.isprintable():
                            assert exact_toml_value(kind, text), (detector.name, key, text)


@pytest.mark.parametrize("machine", machines())
def test_every_subsystem_can_be_listed(machine: str) -> None:
    """A subsystem is a bus or a class of a machine. Its devices are those to which its links lead."""
    recorded = host(machine)
    buses, classes = recorded.listdir("/sys/bus"), recorded.listdir("/sys/class")
    assert len({*buses, *classes}) > 70
    for subsystem in {*buses, *classes}:
        folders = (f"/sys/bus/{subsystem}/devices", f"/sys/class/{subsystem}")
        links = [
            path for path in recorded._recording["links"] if path.rpartition("/")[0] in folders and subsystem != ALIAS
        ]
        assert [device.path for device in find_in_subsystems(recorded, [subsystem])] == sorted(links)


@pytest.mark.slow
@pytest.mark.parametrize("machine", machines())
def test_a_real_machine_is_recorded_again_without_loss(machine: str) -> None:
    """The recording of a recording is equal to the recording."""
    before = host(machine)
    again = Recorder(before).run()
    replayed = RecordedHost(again)
    assert Recorder(replayed).run() == again
    for name in DETECTORS:
        detector = device_detector(name)
        assert [*detector.find(before)] == [*detector.find(replayed)]


@pytest.mark.slow
@pytest.mark.parametrize("machine", machines())
def test_a_recording_without_identifiers_lists_the_same_devices(machine: str) -> None:
    """Only identifiers are replaced. No identifier from QEMU's arguments remains."""
    before = read_recording(str(machines()[machine].recording))
    recording = without_identifiers(before)
    after = RecordedHost(json.loads(json.dumps(recording)))
    text, was_text = squeezed(json.dumps(recording)), squeezed(json.dumps(before))
    for identifier in _identifiers_in(machines()[machine].qemu["hardware"]):
        if squeezed(identifier) in was_text:  # some hardware does not report its identifier
            assert squeezed(identifier) not in text, identifier
    for name in DETECTORS:
        detector = device_detector(name)
        kept = [key for key in detector.keys if key not in ("serial", "wwn", "name") and key != name]
        assert _listed(host(machine), detector, kept) == _listed(after, detector, kept)


def _listed(recorded: RecordedHost, detector: DeviceDetector, keys: list[str]) -> list[str]:
    """The values of these keys of each device, as sorted texts."""
    devices = [entry.device.values for entry in list_devices(recorded, detector).entries]
    return sorted(repr({key: values[key] for key in keys if key in values}) for values in devices)


def _identifiers_in(hardware: str) -> list[str]:
    """The WWNs, MAC addresses and serial numbers of QEMU's arguments. Short serial numbers are left out."""
    parts = [unescaped(part) for line in hardware.split() for part in line.split(",")]
    pairs = [part.split("=", 1) for part in parts if "=" in part]
    return [value for name, value in pairs if name in ("mac", "wwn") or (name == "serial" and len(value) > 5)]


PLACES = max(1, settings().max_examples // 100)
_QUICK = settings().max_examples < 100


@pytest.mark.slow
@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize("machine", random.Random(SEED).sample([*machines()], 1 if _QUICK else len(machines())))
def test_unreadable_is_never_absent(machine: str, tmp_path: Path) -> None:
    """An unreadable path makes no number smaller and hides no device, on the machine and on its recording."""
    tried, wrong = run(machine, str(tmp_path), SEED, PLACES)
    assert tried >= PLACES
    assert wrong == []

"""Shorthand for readings of made-up machines with a given configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capacityd.detectors import detector_names, load_detector
from capacityd.discovery.reader import read_resource, value_of
from capacityd.model.errors import HostError
from capacityd.model.host import Host
from capacityd.model.options import Selection
from capacityd.model.reading import Absent, Quantity, Reading
from capacityd.schema.config import Config, Resource, Table
from capacityd.schema.device import DeviceDetector, ValueDetector
from capacityd.schema.matchers import KeyMatcher, Value
from capacityd.schema.value_types import Text
from capacityd.worker.check_job import service_config

TomlTable = Mapping[str, Any]


def device_detector(name: str) -> DeviceDetector:
    detector = load_detector(name)
    assert isinstance(detector, DeviceDetector)
    return detector


def device_detectors() -> list[DeviceDetector]:
    """All detectors that enumerate devices."""
    return [detector for name in detector_names() if isinstance(detector := load_detector(name), DeviceDetector)]


def value_detector(name: str) -> ValueDetector:
    detector = load_detector(name)
    assert isinstance(detector, ValueDetector)
    return detector


def table(name: str, written: TomlTable, with_defaults: bool = True) -> Table:
    """A parsed table of a detector. Attributes and properties are written as {"attributes.size": "…"}."""
    detector = device_detector(name)
    complete = {**detector.defaults, **written} if with_defaults else written
    return Table(tuple(_matcher(detector, key, raw) for key, raw in complete.items()))


def resource(detector: str, *tables: TomlTable, excepts: tuple[TomlTable, ...] = (), **more: Any) -> Resource:
    """A resource that counts the devices that match any of the tables, and none of excepts. more: its other fields."""
    counted_tables = tuple(table(detector, written) for written in tables or ({},))
    excepted_tables = tuple(table(detector, written, with_defaults=False) for written in excepts)
    return Resource("example.com/thing", detector, counted_tables, excepted_tables, **more)


def read(host: Host, detector: str, *tables: TomlTable, **more: Any) -> Reading:
    """The reading of a resource with these arguments of resource()."""
    return read_resource(resource(detector, *tables, **more), host, "node", explain=True)


def quantity(host: Host, detector: str, *tables: TomlTable, **more: Any) -> int:
    """The quantity of a resource with these arguments. Absent or unknown fails the test."""
    reading = read(host, detector, *tables, **more)
    assert isinstance(reading, Quantity), reading
    return reading.value


def event_sources(detector: str, *tables: TomlTable) -> tuple[set[str], set[str]]:
    """The events that start a pass while a resource is configured: udev subsystems, and other kernel events."""
    config = service_config(Config((resource(detector, *tables),)), Selection())
    return set(config.subsystems), {events.value for events in config.kernel}


def outcome(reading: Reading) -> int | str:
    """The outcome of a reading: a number, "absent" or "unknown"."""
    if isinstance(reading, Quantity):
        return reading.value
    return "absent" if isinstance(reading, Absent) else "unknown"


def counted(host: Host, detector: str, *tables: TomlTable, **more: Any) -> list[str]:
    """The names of the devices that count, or [] if the resource is absent. Unknown fails the test."""
    reading = read(host, detector, *tables, **more)
    if isinstance(reading, Quantity):
        return [contribution.device for contribution in reading.contributions]
    assert isinstance(reading, Absent), reading
    return []


def values(host: Host, detector: str, key: str) -> dict[str, Value]:
    """The value of a key by device. For a value that can't be read: "unknown: " and the reason."""
    loaded, by_device = device_detector(detector), {}
    for device in loaded.find(host):
        try:
            by_device[device.name] = value_of(host, loaded, device, key)
        except HostError as e:
            by_device[device.name] = f"unknown: {e}"
    return by_device


def _matcher(detector: DeviceDetector, key: str, raw: object) -> KeyMatcher:
    kind = detector.keys[key].kind if key in detector.keys else Text()
    return KeyMatcher(key, kind.parse(raw), str(raw))

"""What a detector makes of a machine: shorthand for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capacityd.detectors import load
from capacityd.errors import HostError
from capacityd.host import Host
from capacityd.kinds import Test, Text
from capacityd.model import DeviceDetector, Quantity, Reading, Resource, Table, Value
from capacityd.reading import read_resource, value_of

Written = Mapping[str, Any]


def device_detector(name: str) -> DeviceDetector:
    found = load(name)
    assert isinstance(found, DeviceDetector)
    return found


def table(detector: str, written: Written, defaults: bool = True) -> Table:
    """A table as the configuration makes it; attributes and properties are written {"attributes.size": "…"}."""
    known = device_detector(detector)
    wanted = {**(known.defaults if defaults else {}), **written}
    return Table(tuple(_test(known, key, raw) for key, raw in wanted.items()))


def resource(detector: str, *tables: Written, excepts: tuple[Written, ...] = (), **more: Any) -> Resource:
    """A resource that counts the devices which any of the tables matches."""
    wanted = tuple(table(detector, t) for t in tables or ({},))
    unwanted = tuple(table(detector, t, defaults=False) for t in excepts)
    return Resource("example.com/thing", detector, wanted, unwanted, **more)


def look(host: Host, detector: str, *tables: Written, **more: Any) -> Reading:
    """The reading of such a resource."""
    return read_resource(resource(detector, *tables, **more), host, "node", explain=True)


def counted(host: Host, detector: str, *tables: Written, **more: Any) -> list[str]:
    """The names of the devices that count; a machine of which something is unknown fails the test."""
    reading = look(host, detector, *tables, **more)
    if isinstance(reading, Quantity):
        return [e.device for e in reading.evidence]
    assert type(reading).__name__ == "Absent", reading
    return []


def values(host: Host, detector: str, key: str) -> dict[str, Value]:
    """What each device says under a key; what can't be read as the text "unknown: " and the reason."""
    known, found = device_detector(detector), {}
    for device in known.find(host):
        try:
            found[device.name] = value_of(host, known, device, key)
        except HostError as e:
            found[device.name] = f"unknown: {e}"
    return found


def _test(detector: DeviceDetector, key: str, raw: object) -> Test:
    kind = detector.keys[key].kind if key in detector.keys else Text()
    return Test(key, kind.parse(raw), str(raw))

"""What is in a machine, as a detector sees it: each device with its name, its values, and the TOML that matches it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from capacityd.errors import HostError
from capacityd.host import Host
from capacityd.inventory.lines import Census, Line, Said, identity_of, kind_of
from capacityd.inventory.names import called, names_of
from capacityd.model import Device, DeviceDetector, Value
from capacityd.reading import value_of


@dataclass(frozen=True, slots=True)
class Listed:
    """A device. maker, model: what people call it, "" if nothing tells. values: what it says under each key, without
    those that it lacks; unread: key -> why it could not be read. own: the TOML that matches it alone; kind: all alike.
    """

    name: str
    path: str
    maker: str
    model: str
    values: Mapping[str, Value]
    unread: Mapping[str, str]
    own: Line
    kind: Line

    @property
    def title(self) -> str:
        """What people call it, "" if nothing tells."""
        return called(self.maker, self.model)


def listing(host: Host, detector: DeviceDetector) -> list[Listed]:
    """All devices of a detector, those alike beside each other. Raises HostError if there is no looking at all."""
    found = sorted(detector.find(host), key=_place)
    said = [_said(host, detector, device) for device in found]
    census = Census(detector, said)
    listed: dict[str, list[Listed]] = {}
    for device, one in zip(found, said, strict=True):
        own, kind = identity_of(census, one), kind_of(census, one)
        names = names_of(host, detector, device, one.values)
        row = Listed(device.name, device.path, *names, one.values, one.unread, own, kind)
        listed.setdefault(kind.line or device.path, []).append(row)
    return [row for rows in listed.values() for row in rows]


def _place(device: Device) -> list[tuple[str, int]]:
    """1-2 stands before 1-10."""
    parts = re.split("([0-9]+)", device.name)
    return [(text, int(number or 0)) for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True)]


def _said(host: Host, detector: DeviceDetector, device: Device) -> Said:
    values: dict[str, Value] = {}
    unread: dict[str, str] = {}
    for key in detector.keys:
        try:
            value = value_of(host, detector, device, key)
        except HostError as e:
            unread[key] = str(e)
            continue
        if value not in (None, "", ()):
            values[key] = value
    return Said(values, unread)

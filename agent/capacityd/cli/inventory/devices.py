"""The devices of a detector, each with its name, its values, and the TOML that matches it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from capacityd.cli.inventory.names import display_name, names_of
from capacityd.cli.inventory.selectors import DeviceIndex, DeviceValues, TomlSelector, kind_selector, unique_selector
from capacityd.discovery.reader import value_of
from capacityd.model.device import Device, DeviceDetector
from capacityd.model.errors import HostError
from capacityd.model.host import Host
from capacityd.model.matchers import Value


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A device in the output of `devices`."""

    name: str
    path: str
    vendor: str
    """For people; "" if unknown, and so is the model."""
    model: str
    values: DeviceValues
    unique: TomlSelector
    """Matches this device only."""
    kind: TomlSelector
    """Matches all devices of its kind."""

    @property
    def title(self) -> str:
        """Vendor and model, "" if both are unknown."""
        return display_name(self.vendor, self.model)


def list_devices(host: Host, detector: DeviceDetector) -> list[DeviceEntry]:
    """Returns all devices of a detector, grouped by kind. Raises HostError if they cannot be enumerated."""
    found = sorted(detector.find(host), key=_natural_order)
    values = [_values_of(host, detector, device) for device in found]
    index = DeviceIndex(detector, values)
    kinds: dict[str, list[DeviceEntry]] = {}
    for device, own in zip(found, values, strict=True):
        unique, kind = unique_selector(index, own), kind_selector(index, own)
        vendor, model = names_of(host, detector, device, own)
        entry = DeviceEntry(device.name, device.path, vendor, model, own, unique, kind)
        kinds.setdefault(kind.toml or device.path, []).append(entry)
    return [entry for entries in kinds.values() for entry in entries]


def _natural_order(device: Device) -> list[tuple[str, int]]:
    """Sorts 1-2 before 1-10."""
    parts = re.split("([0-9]+)", device.name)
    return [(text, int(number or 0)) for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True)]


def _values_of(host: Host, detector: DeviceDetector, device: Device) -> DeviceValues:
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
    return DeviceValues(values, unread)

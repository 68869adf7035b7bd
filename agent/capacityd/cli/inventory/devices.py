"""A detector's devices, each with its name, its values, and the TOML that matches it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from capacityd.cli.inventory.found import FoundDevice, FoundDevices, Unread, find
from capacityd.cli.inventory.selectors import DeviceIndex, DeviceValues, TomlSelector, kind_selector, unique_selector
from capacityd.model.device import DeviceDetector
from capacityd.model.errors import AmbiguousValue, HostError
from capacityd.model.host import Host

_COMPANY_SUFFIX = re.compile(
    r",? +(inc|corp|corporation|co|company|ltd|limited|gmbh|ag|llc|s\.?a|b\.?v|int'?l)\b\.?,?$", re.I
)
_NO_VENDORS = ("ATA",)  # libata's placeholder


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A device in the output of `devices`."""

    name: str
    path: str
    vendor: str
    """The vendor's name; "" if unknown."""
    model: str
    """The model's name; "" if unknown."""
    values: DeviceValues
    unique: TomlSelector
    """Matches only this device."""
    kind: TomlSelector
    """Matches all devices of the same kind."""

    @property
    def title(self) -> str:
        """Vendor and model; only the model if it begins with the vendor's name; "" if both are unknown."""
        if self.vendor and self.model.lower().startswith(self.vendor.partition(" ")[0].lower()):
            return self.model
        return f"{self.vendor} {self.model}".strip()


@dataclass(frozen=True, slots=True)
class DeviceListing:
    """The devices of a detector."""

    detector: DeviceDetector
    entries: tuple[DeviceEntry, ...]
    """The devices, grouped by kind."""
    error: str
    """Why some devices may not be listed; "" if all are listed."""

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Devices that could not be listed or may not be separate devices, each with the reason."""
        doubts = tuple(f"{entry.name}: {entry.values.doubt}" for entry in self.entries if entry.values.doubt)
        return (*([self.error] if self.error else []), *doubts)


def list_devices(host: Host, detector: DeviceDetector) -> DeviceListing:
    """All devices of a detector that can be enumerated, read in this process."""
    return listing_of(detector, find(host, detector))


def listing_of(detector: DeviceDetector, found: FoundDevices) -> DeviceListing:
    """The devices of a detector with their TOML."""
    devices = sorted(found.devices, key=_natural_order)
    values = [_values_of(device) for device in devices]
    index = DeviceIndex(detector, values, found.error)
    kinds: dict[str, list[DeviceEntry]] = {}
    for device, own in zip(devices, values, strict=True):
        unique, kind = unique_selector(index, own), kind_selector(index, own)
        vendor, model = _names_of(detector, device, own)
        entry = DeviceEntry(device.name, device.path, vendor, model, own, unique, kind)
        kinds.setdefault(kind.toml or device.path, []).append(entry)
    return DeviceListing(detector, tuple(entry for entries in kinds.values() for entry in entries), found.error)


def _natural_order(device: FoundDevice) -> list[tuple[str, int]]:
    """A key that sorts 1-2 before 1-10."""
    parts = re.split("([0-9]+)", device.name)
    return [(text, int(number or 0)) for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True)]


def _values_of(device: FoundDevice) -> DeviceValues:
    return DeviceValues(device.values, {key: _error(unread) for key, unread in device.unread.items()}, device.doubt)


def _error(unread: Unread) -> HostError:
    error = HostError(unread.reason)
    return AmbiguousValue(error, unread.possible) if unread.possible else error


def _names_of(detector: DeviceDetector, device: FoundDevice, values: DeviceValues) -> tuple[str, str]:
    """Vendor and model from the hardware database; otherwise from the device itself; "" if unknown."""
    words = [word for key in detector.words if isinstance(word := values.get(key), str) and word not in _NO_VENDORS]
    vendor = _without_suffixes(device.vendor) or (words[0] if len(words) > 1 else "")
    return vendor, device.model or (words[-1] if words else "")


def _without_suffixes(vendor: str) -> str:
    """Removes suffixes such as "Co., Ltd"."""
    while (shorter := _COMPANY_SUFFIX.sub("", vendor)) != vendor and shorter:
        vendor = shorter
    return vendor

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
_NO_VENDORS = ("ATA",)  # the kernel's libata reports this instead of the vendor of a SATA disk


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
        """Why devices are missing, and why entries may be duplicates or have no values; empty if the list is right."""
        missing = [self.error] if self.error else []
        uncertain = [f"{e.name}: {e.values.uncertain_because}" for e in self.entries if e.values.uncertain_because]
        return (*missing, *uncertain)


def list_devices(host: Host, detector: DeviceDetector) -> DeviceListing:
    """All devices of a detector that can be enumerated, read in this process."""
    return listing_of(detector, find(host, detector))


def listing_of(detector: DeviceDetector, found: FoundDevices) -> DeviceListing:
    """The devices of a detector with their TOML."""
    devices = sorted(found.devices, key=_natural_order)
    values = [_values_of(device) for device in devices]
    index = DeviceIndex(detector, values, incomplete_because=found.error)
    entries_by_kind: dict[str, list[DeviceEntry]] = {}
    for device, own_values in zip(devices, values, strict=True):
        vendor, model = _names_of(detector, device, own_values)
        entry = DeviceEntry(
            name=device.name,
            path=device.path,
            vendor=vendor,
            model=model,
            values=own_values,
            unique=unique_selector(index, own_values),
            kind=kind_selector(index, own_values),
        )
        # A device that no TOML for a kind matches is alone in its group.
        entries_by_kind.setdefault(entry.kind.toml or device.path, []).append(entry)
    entries = tuple(entry for group in entries_by_kind.values() for entry in group)
    return DeviceListing(detector, entries, error=found.error)


def _natural_order(device: FoundDevice) -> list[tuple[str, int]]:
    """A key that sorts 1-2 before 1-10: pairs of text and the number after it."""
    parts = re.split("([0-9]+)", device.name)  # texts at even indexes, numbers at odd ones; begins and ends with a text
    texts = parts[::2]
    numbers = [*map(int, parts[1::2]), 0]  # there is no number after the last text
    return list(zip(texts, numbers, strict=True))


def _values_of(device: FoundDevice) -> DeviceValues:
    errors = {key: _error(unread) for key, unread in device.unread.items()}
    return DeviceValues(device.values, errors, uncertain_because=device.uncertain_because)


def _error(unread: Unread) -> HostError:
    error = HostError(unread.reason)
    return AmbiguousValue(error, unread.possible) if unread.possible else error


def _names_of(detector: DeviceDetector, device: FoundDevice, values: DeviceValues) -> tuple[str, str]:
    """Vendor and model from the hardware database; otherwise from the device itself; "" if unknown."""
    own_vendor = _name_in(values, detector.vendor_key)
    own_model = _name_in(values, detector.model_key)
    if not own_model:
        # A name is shown in any case: without a model, the vendor stands in its place.
        own_vendor, own_model = "", own_vendor
    vendor = _without_suffixes(device.vendor) or own_vendor
    model = device.model or own_model
    return vendor, model


def _name_in(values: DeviceValues, key: str | None) -> str:
    """The value of the detector's key for the vendor or model; "" if there is no such key or value."""
    name = values.get(key) if key is not None else None
    return name if isinstance(name, str) and name not in _NO_VENDORS else ""


def _without_suffixes(vendor: str) -> str:
    """Removes suffixes such as "Co., Ltd"."""
    while (shorter := _COMPANY_SUFFIX.sub("", vendor)) != vendor and shorter:
        vendor = shorter
    return vendor

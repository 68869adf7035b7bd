"""A detector's devices, each with its name, its values, and the TOML that matches it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from capacityd.cli.inventory.selectors import DeviceIndex, DeviceValues, TomlSelector, kind_selector, unique_selector
from capacityd.discovery.reader import value_of
from capacityd.model.device import Device, DeviceDetector
from capacityd.model.errors import HostError
from capacityd.model.host import Host, resolve_link
from capacityd.model.matchers import Value

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
    """All devices of a detector that can be enumerated."""
    devices, error = [], ""
    try:
        for device in detector.find(host):
            devices.append(device)  # noqa: PERF402  # devices before an error are listed
    except HostError as e:
        error = str(e)
    devices.sort(key=_natural_order)
    values = [_values_of(host, detector, device) for device in devices]
    index = DeviceIndex(detector, values, error)
    kinds: dict[str, list[DeviceEntry]] = {}
    for device, own in zip(devices, values, strict=True):
        unique, kind = unique_selector(index, own), kind_selector(index, own)
        vendor, model = _names_of(host, detector, device, own)
        entry = DeviceEntry(device.name, device.path, vendor, model, own, unique, kind)
        kinds.setdefault(kind.toml or device.path, []).append(entry)
    return DeviceListing(detector, tuple(entry for entries in kinds.values() for entry in entries), error)


def _natural_order(device: Device) -> list[tuple[str, int]]:
    """A key that sorts 1-2 before 1-10."""
    parts = re.split("([0-9]+)", device.name)
    return [(text, int(number or 0)) for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True)]


def _values_of(host: Host, detector: DeviceDetector, device: Device) -> DeviceValues:
    values: dict[str, Value] = {}
    unread: dict[str, HostError] = {}
    missing: list[str] = []
    for key in detector.keys:
        try:
            value = value_of(host, detector, device, key)
        except HostError as e:
            unread[key] = e
            continue
        if value in (None, "", ()):
            missing.append(key)
        else:
            values[key] = value
    doubt = device.doubt
    if missing and (gone := _why_gone(host, device)):
        doubt = gone
        unread |= dict.fromkeys(missing, HostError(gone))
    return DeviceValues(values, unread, doubt)


def _why_gone(host: Host, device: Device) -> str:
    """Why the device has no values: it has disappeared, or its link is dangling; "" if it exists."""
    try:
        return "" if resolve_link(host, device.path) else "it disappeared while it was read"
    except HostError as e:
        return str(e)


def _names_of(host: Host, detector: DeviceDetector, device: Device, values: DeviceValues) -> tuple[str, str]:
    """Vendor and model from the hardware database; otherwise from the device itself; "" if unknown."""
    database: Mapping[str, str] = {}
    if detector.modalias is not None:
        try:
            database = host.hardware_names(detector.modalias(host, device) or "")
            if "ID_MODEL_FROM_DATABASE" not in database:  # udev may know it from the machine's own rules
                database = {**database, **host.properties(device.path)}
        except HostError:
            pass  # udev does not know the device (yet)
    words = [word for key in detector.words if isinstance(word := values.get(key), str) and word not in _NO_VENDORS]
    vendor = _without_suffixes(database.get("ID_VENDOR_FROM_DATABASE", "")) or (words[0] if len(words) > 1 else "")
    model = database.get("ID_MODEL_FROM_DATABASE", "") or (words[-1] if words else "")
    return vendor, model


def _without_suffixes(vendor: str) -> str:
    """Removes suffixes such as "Co., Ltd"."""
    while (shorter := _COMPANY_SUFFIX.sub("", vendor)) != vendor and shorter:
        vendor = shorter
    return vendor

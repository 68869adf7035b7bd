"""A detector's devices, each with its name, its values, and the TOML that matches it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from capacityd.cli.inventory.found import FoundDevice, FoundDevices
from capacityd.cli.inventory.selectors import DeviceIndex, TomlSelector, kind_selector, unique_selector
from capacityd.schema.device import DeviceDetector

_COMPANY_SUFFIX = re.compile(
    r",? +(inc|corp|corporation|co|company|ltd|limited|gmbh|ag|llc|s\.?a|b\.?v|int'?l)\b\.?,?$", re.I
)
_NO_VENDORS = ("ATA",)  # what the kernel's libata reports instead of the vendor of a SATA disk


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A device in the output of `devices`."""

    device: FoundDevice
    vendor: str
    """The vendor's name for people, from the hardware database or the device itself; "" if unknown."""
    model: str
    """The model's name for people, from the same sources; "" if unknown."""
    unique_selector: TomlSelector
    """Matches only this device."""
    kind_selector: TomlSelector
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
    """Why devices may be missing; "" if all are listed."""

    @property
    def flaws(self) -> tuple[str, ...]:
        """Why devices may be missing, and which entries may not count as devices; empty if the list is right."""
        devices = [entry.device for entry in self.entries]
        uncertain = [f"{device.name}: {device.uncertain_because}" for device in devices if device.uncertain_because]
        return (self.error, *uncertain) if self.error else tuple(uncertain)


def listing_of(detector: DeviceDetector, found: FoundDevices) -> DeviceListing:
    """The devices of a detector with their TOML."""
    devices = sorted(found.devices, key=_natural_order)
    index = DeviceIndex(detector, devices, complete=not found.error)
    entries_by_kind: dict[str, list[DeviceEntry]] = {}
    for device in devices:
        vendor, model = _names_of(detector, device)
        entry = DeviceEntry(
            device,
            vendor=vendor,
            model=model,
            unique_selector=unique_selector(index, device),
            kind_selector=kind_selector(index, device),
        )
        # A device without TOML for its kind is alone in its group.
        entries_by_kind.setdefault(entry.kind_selector.toml or device.path, []).append(entry)
    entries = tuple(entry for group in entries_by_kind.values() for entry in group)
    return DeviceListing(detector, entries, error=found.error)


def _natural_order(device: FoundDevice) -> list[str | int]:
    """A key that sorts 1-2 before 1-10."""
    parts = re.split("([0-9]+)", device.name)  # texts at even indexes, numbers at odd ones
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]


def _names_of(detector: DeviceDetector, device: FoundDevice) -> tuple[str, str]:
    """Vendor and model from the hardware database; otherwise from the device itself; "" if unknown."""
    own_vendor = _name_in(device, detector.vendor_name_key)
    own_model = _name_in(device, detector.model_name_key)
    if not own_model:
        # The vendor replaces the missing model: starter.py names a resource after the model.
        own_vendor, own_model = "", own_vendor
    vendor = _without_suffixes(device.vendor) or own_vendor
    model = device.model or own_model
    return vendor, model


def _name_in(device: FoundDevice, key: str | None) -> str:
    """The value of the detector's key for the vendor or model; "" if there is no such key or value."""
    name = device.get(key) if key is not None else None
    return name if isinstance(name, str) and name not in _NO_VENDORS else ""


def _without_suffixes(vendor: str) -> str:
    """Removes suffixes such as "Co., Ltd", but never the whole name."""
    while True:
        shorter = _COMPANY_SUFFIX.sub("", vendor)
        if shorter in (vendor, ""):
            return vendor
        vendor = shorter

"""A detector's devices, each with the TOML that matches it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain

from capacityd.cli.inventory.found import FoundDevice, FoundDevices
from capacityd.cli.inventory.selectors import DeviceIndex, TomlSelector, kind_selector, unique_selector
from capacityd.schema.device import DeviceDetector


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A device in the output of `devices`."""

    device: FoundDevice
    unique_selector: TomlSelector
    """Matches only this device."""
    kind_selector: TomlSelector
    """Matches all devices of the same kind."""


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
        """Why devices may be missing, and which entries may not count as devices; empty for a complete listing."""
        flaws = [self.error] if self.error else []
        devices = [entry.device for entry in self.entries]
        flaws += [f"{device.name}: {device.uncertain_because}" for device in devices if device.uncertain_because]
        return tuple(flaws)


def listing_of(detector: DeviceDetector, found: FoundDevices) -> DeviceListing:
    """The devices of a detector with their TOML."""
    devices = sorted(found.devices, key=_natural_order)
    index = DeviceIndex(detector, devices, complete=not found.error)
    entries_by_kind: dict[str, list[DeviceEntry]] = {}
    for device in devices:
        entry = DeviceEntry(device, unique_selector(index, device), kind_selector(index, device))
        # A device whose kind has no TOML forms its own group.
        kind = entry.kind_selector.toml or device.path
        entries_by_kind.setdefault(kind, []).append(entry)
    entries = chain.from_iterable(entries_by_kind.values())
    return DeviceListing(detector, tuple(entries), error=found.error)


def _natural_order(device: FoundDevice) -> list[str | int]:
    """A key that sorts 1-2 before 1-10."""
    parts = re.split("([0-9]+)", device.name)  # texts at even indexes, numbers at odd ones
    return [part if index % 2 == 0 else int(part) for index, part in enumerate(parts)]

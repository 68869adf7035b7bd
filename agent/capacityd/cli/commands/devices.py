"""devices: lists this machine's devices, each with the TOML that matches it. Needs no cluster."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from capacityd.cli.inventory.devices import DeviceEntry, list_devices
from capacityd.cli.inventory.starter import starter_configuration
from capacityd.cli.inventory.table import OVERVIEW_ROWS, device_table
from capacityd.cli.output.terminal import print_json, print_line, print_table
from capacityd.detectors import load, names
from capacityd.model.device import DeviceDetector
from capacityd.model.errors import UsageError
from capacityd.worker.context import host_of


def devices(options: argparse.Namespace) -> int:
    """Lists the devices of each detector, or of one. Raises UsageError for a detector without devices."""
    if options.toml and options.json:
        raise UsageError("--toml and --json cannot be combined")
    detectors = _detectors(options.detector)
    host = host_of(options)
    if options.toml:
        print(starter_configuration(host, detectors), end="")
        return 0
    found = [(detector, list_devices(host, detector)) for detector in detectors]
    if options.json:
        print_json({"devices": [_as_dict(detector, entry) for detector, entries in found for entry in entries]})
        return 0
    for detector, entries in found:
        _print(detector, entries, None if options.detector else OVERVIEW_ROWS)
    return 0


def _detectors(name: str | None) -> list[DeviceDetector]:
    every = [detector for one in names() if isinstance(detector := load(one), DeviceDetector)]
    if name is None:
        return [detector for detector in every if detector.shown_by_default]
    found = [detector for detector in every if detector.name == name]
    if not found:
        if name in names():
            raise UsageError(f'the detector "{name}" has no devices')
        raise UsageError(f'unknown detector "{name}"; must be one of {", ".join(d.name for d in every)}')
    return found


def _print(detector: DeviceDetector, entries: Sequence[DeviceEntry], limit: int | None) -> None:
    """Prints a table, and below it the TOML for each device. limit: the most devices of a kind to print, None: all."""
    print_line(f"{detector.name}: {len(entries) or 'none'}  ({detector.about})")
    if not entries:
        return
    table = device_table(detector, entries, limit)
    print_table(table.rows, table.heading)
    if table.common:
        print_line(f"all: {', '.join(table.common)}")
    for reason in table.unread:
        print_line(f"?: could not be read: {reason}")
    width = max(len(toml) for toml, _ in table.selectors)
    print_line()
    for toml, comment in table.selectors:
        print_line(f"{toml:<{width}}  # {comment}" if toml else f"# {comment}")
    print_line()


def _as_dict(detector: DeviceDetector, entry: DeviceEntry) -> dict[str, object]:
    return {
        "detector": detector.name,
        "device": entry.name,
        "path": entry.path,
        "vendor": entry.vendor,
        "model": entry.model,
        "values": entry.values.by_key,
        "unreadable": entry.values.unread,
        "toml": entry.unique.toml or None,
        "toml_reason": entry.unique.reason,
        "kind_toml": entry.kind.toml or None,
        "kind_count": entry.kind.count,
    }

"""devices: what is in the machine, each device with the TOML that matches it. Needs no cluster."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from capacityd.cli.context import host_of
from capacityd.cli.terminal import Screen
from capacityd.cli.text import as_json
from capacityd.detectors import load, names
from capacityd.errors import UsageError
from capacityd.inventory import Listed, listing
from capacityd.model import DeviceDetector


def devices(options: argparse.Namespace) -> int:
    """Lists what each detector sees."""
    if options.detector is not None and options.detector not in names():
        having = ", ".join(name for name in names() if isinstance(load(name), DeviceDetector))
        raise UsageError(f'there is no detector "{options.detector}"; those that have devices are {having}')
    if options.toml and options.json:
        raise UsageError("--toml is TOML already: leave out --json")
    asked = [options.detector] if options.detector else names()
    all_of_them = [d for name in asked if isinstance(d := load(name), DeviceDetector)]
    detectors = [d for d in all_of_them if d.listed or options.detector]
    if not detectors:
        raise UsageError(f'the detector "{options.detector}" reads a number; it has no devices to list')
    host = host_of(options)
    if options.toml:
        from capacityd.inventory.starter import starter

        print(starter(host, detectors), end="")
        return 0
    found = [(detector, listing(host, detector)) for detector in detectors]
    if options.json:
        print(as_json({"devices": [_device_as_dict(d.name, one) for d, known in found for one in known]}))
        return 0
    screen = Screen()
    for detector, known in found:
        _show(screen, detector, known, bool(options.detector))
    return 0


def _show(screen: Screen, detector: DeviceDetector, listed: Sequence[Listed], whole: bool) -> None:
    """A table, and the TOML below it. whole: all devices, however many are alike."""
    from capacityd.inventory.table import FEW, table_of

    screen.line((detector.name, "name"), f": {len(listed) or 'none'}", (f"  ({detector.about})", "dim"))
    if not listed:
        return
    table = table_of(detector, listed, None if whole else FEW)
    screen.table([[(name, "name"), *cells] for name, *cells in table.rows], table.heading, indent=2)
    if table.common:
        screen.line((f"all: {', '.join(table.common)}", "dim"), indent=2)
    width = max(len(line) for line, _ in table.lines)
    screen.line()
    for line, what in table.lines:
        screen.copyable((line and line.ljust(width), "code"), (f"{'  ' if line else ''}# {what}", "dim"), indent=2)
    screen.line()


def _device_as_dict(detector: str, device: Listed) -> dict[str, object]:
    return {
        "detector": detector,
        "device": device.name,
        "path": device.path,
        "maker": device.maker,
        "model": device.model,
        "values": device.values,
        "unread": device.unread,
        "line": device.own.line or None,
        "why": device.own.why,
        "kind": device.kind.line or None,
        "alike": device.kind.count,
    }

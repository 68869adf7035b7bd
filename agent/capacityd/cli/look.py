"""devices and probe: what is in the machine, and what the configured resources make of it. Needs no cluster."""

from __future__ import annotations

import argparse

from capacityd.cli.context import config_of, host_of, node_name_of, warn
from capacityd.cli.text import as_json, columns
from capacityd.errors import UsageError
from capacityd.model import Absent, Quantity, Reading, Unknown
from capacityd.report import reading_as_dict


def devices(options: argparse.Namespace) -> int:
    """Lists what each detector sees."""
    from capacityd.detectors import load, names
    from capacityd.inventory import listing
    from capacityd.model import DeviceDetector

    if options.detector is not None and options.detector not in names():
        raise UsageError(f'there is no detector "{options.detector}"; there are {", ".join(names())}')
    asked = [options.detector] if options.detector else names()
    host = host_of(options)
    found = {name: listing(host, d) for name in asked if isinstance(d := load(name), DeviceDetector)}
    if options.detector and not found:
        raise UsageError(f'the detector "{options.detector}" reads a number; it has no devices to list')
    if options.json:
        rows = [
            {"detector": name, "device": d.name, "path": d.path, "values": d.values, "line": d.line}
            for name, known in found.items()
            for d in known
        ]
        print(as_json({"devices": rows}))
        return 0
    for name, known in found.items():
        print(f"{name}: {len(known) or 'none'}")
        for device in known:
            print(f"  {device.name}  {device.summary}".rstrip())
            print(f"      {device.line}")
    return 0


def probe(options: argparse.Namespace) -> int:
    """Prints the readings; exit status 4 if any is unknown."""
    from capacityd.probe import probe as read_all

    host, config = host_of(options), config_of(options)
    readings = read_all(config, host, node_name_of(options, config, host), options.explain)
    if options.json:
        print(as_json({"resources": [reading_as_dict(name, reading) for name, reading in readings.items()]}))
    else:
        units = {r.name: f" {r.unit.name}" if r.unit else "" for r in config.resources}
        _print(readings, units, options.explain)
    for name, reading in readings.items():
        if isinstance(reading, Quantity) and reading.warning:
            warn(f"{name}: {reading.warning}")
    return 4 if any(isinstance(r, Unknown) for r in readings.values()) else 0


def _print(readings: dict[str, Reading], units: dict[str, str], explain: bool) -> None:
    rows = [(name, *_said(reading)) for name, reading in readings.items()]
    if not explain:
        print("\n".join(columns(rows)))
        return
    for (name, value, why), reading in zip(rows, readings.values(), strict=True):
        print(f"{name}: {value}" + (f" ({why})" if why else ""))
        details = []
        if isinstance(reading, Quantity):
            details = [("  +", e.device, f"{e.contributes}{units[name]}", e.note) for e in reading.evidence]
        print("".join(f"{line}\n" for line in columns(details)), end="")
        print(
            "".join(f"{line}\n" for line in columns([("  -", r.device, r.reason) for r in reading.rejections])), end=""
        )


def _said(reading: Reading) -> tuple[str, str]:
    if isinstance(reading, Quantity):
        return str(reading.value), ""
    return ("absent" if isinstance(reading, Absent) else "unknown"), reading.reason

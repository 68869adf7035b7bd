"""probe: what the configured resources amount to on this machine. Needs no cluster."""

from __future__ import annotations

import argparse

from capacityd.cli.context import config_of, host_of, node_name_of
from capacityd.cli.terminal import Screen
from capacityd.cli.text import as_json
from capacityd.model import Absent, Quantity, Reading, Unknown
from capacityd.report import reading_as_dict


def probe(options: argparse.Namespace) -> int:
    """Prints the readings; exit status 4 if any is unknown."""
    if options.as_service:
        from capacityd.cli.sandbox import again

        return again(options)
    from capacityd.probe import probe as read_all

    host, config = host_of(options), config_of(options)
    readings = read_all(config, host, node_name_of(options, config, host), options.explain)
    if options.json:
        print(as_json({"resources": [reading_as_dict(name, reading) for name, reading in readings.items()]}))
    else:
        screen = Screen()
        if options.explain:
            from capacityd.cli.why import show

            for resource in sorted(config.resources, key=lambda r: r.name):
                show(screen, resource, readings[resource.name])
        else:
            screen.table([((name, "name"), *_said(reading)) for name, reading in readings.items()])
    return 4 if any(isinstance(r, Unknown) for r in readings.values()) else 0


def _said(reading: Reading) -> tuple[tuple[str, str], str]:
    if isinstance(reading, Quantity):
        return (str(reading.value), "good" if reading.value else "warn"), reading.warning
    outcome = ("absent", "warn") if isinstance(reading, Absent) else ("unknown", "bad")
    return outcome, reading.reason

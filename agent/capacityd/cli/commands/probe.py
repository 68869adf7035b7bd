"""probe: reads the configured resources on this machine. Needs no cluster."""

from __future__ import annotations

import argparse

from capacityd.cli.output.explain import print_explanation
from capacityd.cli.output.terminal import print_json, print_table
from capacityd.cli.sandbox import run_in_sandbox
from capacityd.discovery.runner import probe as probe_resources
from capacityd.model.reading import Absent, Quantity, Reading, Unknown, reading_as_dict
from capacityd.worker.context import config_of, host_of, node_name_of


def probe(options: argparse.Namespace) -> int:
    """Prints the readings; exit status 4 if any is unknown."""
    if options.as_service:
        return run_in_sandbox(options)
    host, config = host_of(options), config_of(options)
    readings = probe_resources(config, host, node_name_of(options, config, host), options.explain)
    if options.json:
        print_json({"resources": [reading_as_dict(name, reading) for name, reading in readings.items()]})
    elif options.explain:
        for resource in sorted(config.resources, key=lambda r: r.name):
            print_explanation(resource, readings[resource.name])
    else:
        print_table([_row(name, reading) for name, reading in readings.items()], ("RESOURCE", "QUANTITY", "REASON"))
    return 4 if any(isinstance(r, Unknown) for r in readings.values()) else 0


def _row(name: str, reading: Reading) -> tuple[str, str, str]:
    if isinstance(reading, Quantity):
        return name, str(reading.value), reading.warning
    return name, "absent" if isinstance(reading, Absent) else "unknown", reading.reason

"""fleet: shows which Nodes of a cluster need attention, and which resources are free. Only reads.

Uses the kubeconfig of the user who runs the command, or a list that kubectl has saved.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict

from capacityd.cli.fleet.assess import FleetReport, assess
from capacityd.cli.fleet.metrics import metrics_text
from capacityd.cli.fleet.source import selected_fleet
from capacityd.cli.options import Options, refuse_other_sources
from capacityd.cli.output.fleet import print_fleet
from capacityd.cli.output.terminal import print_json
from capacityd.linux.atomic_file import replace_file
from capacityd.model.errors import CapacitydError, UsageError
from capacityd.model.fleet import Fleet
from capacityd.model.setting_types import Duration

_HINT_RIGHT = 'this needs the right to "list" "pods"'
_HINT_FILE = 'the file has no pods ("kubectl get nodes,pods -A -o json" saves both)'


def fleet(options: Options) -> int:
    """Prints a summary of each resource, and the Nodes that need attention. Returns exit status 4 if there are any.

    Raises UsageError for an option that selects one machine or Node, CapacitydError if no Node is selected, and
    NodeError.
    """
    refuse_other_sources(options, "fleet reads all Nodes of a cluster", sources=("machine", "node_name"))
    max_age = _max_age(options.max_age)
    fleet = selected_fleet(options)
    _require_named(fleet, options)
    now = time.time() if fleet.read_at is None else fleet.read_at  # a saved list is as of the time when it was read
    lists_resources = options.nodes or bool(options.node)
    report = assess(fleet, now=now, max_age=max_age, names=options.node, by_node=lists_resources)
    if options.textfile is not None:
        _write_metrics(options.textfile, report, options.context)
    if options.json:
        print_json(asdict(report))
    else:
        hint = _HINT_RIGHT if options.selection.node_file is None else _HINT_FILE
        print_fleet(report, every_node=options.all, requests_hint=hint)
    return 4 if report.attention else 0


def _max_age(text: str) -> float:
    """The option --max-age in seconds. Raises UsageError."""
    try:
        return Duration(least=1.0, most=365 * 86400.0).parse(text)
    except ValueError as e:
        raise UsageError(f"--max-age {e}") from e


def _require_named(fleet: Fleet, options: Options) -> None:
    """Raises CapacitydError if one of the Nodes that the options name does not exist or is not selected."""
    names = {node.name for node in fleet.nodes}
    if missing := [name for name in options.node if name not in names]:
        among = f" among those that match -l {options.selector}" if options.selector else ""
        raise CapacitydError(f'no Node "{missing[0]}"{among}')


def _write_metrics(path: str, report: FleetReport, context: str | None) -> None:
    """Replaces the file. Raises CapacitydError if this fails."""
    try:
        replace_file(path, metrics_text(report, context), 0o644)
    except ImportError as e:
        raise CapacitydError("--textfile needs the package python3-prometheus-client") from e
    except OSError as e:
        raise CapacitydError(f"{path}: could not be written: {os.strerror(e.errno or 0)}") from e

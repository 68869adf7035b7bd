"""fleet: shows which Nodes of a cluster need attention, and which resources are free. Only reads.

Uses the kubeconfig of the user who runs the command, or a list that kubectl has saved.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict

from capacityd.cli.output.terminal import print_json, print_message
from capacityd.linux.atomic_file import replace_file
from capacityd.model.errors import CapacitydError, UsageError
from capacityd.schema.setting_types import duration
from kubectl_capacityd.commands.fleet_output import print_fleet
from kubectl_capacityd.commands.source import selected_fleet
from kubectl_capacityd.fleet.assess import FleetReport, assess
from kubectl_capacityd.fleet.metrics import metrics_text
from kubectl_capacityd.model import Fleet
from kubectl_capacityd.options import ClusterOptions

_MAX_AGE_TYPE = duration(least="1s", most="365d")
"""The type of --max-age. The limits exclude only mistakes."""
# Hints, if the pods' requests are unknown
_NO_REQUESTS_FROM_CLUSTER = 'this needs the right to "list" "pods"'
_NO_REQUESTS_IN_FILE = 'the file has no pods ("kubectl get nodes,pods -A -o json" saves both)'


def fleet(options: ClusterOptions) -> int:
    """Prints a summary of each resource, and what needs attention. Returns exit status 4 if something needs attention.

    Raises NodeError, UsageError, and CapacitydError if no Node is selected.
    """
    max_age = _max_age(options.max_age)
    selected = selected_fleet(options)
    _require_named(selected, options)
    # The heartbeats of a saved list must not look old because the list is old.
    now = time.time() if selected.read_at is None else selected.read_at
    lists_each_node = options.nodes or bool(options.node_names)
    report = assess(selected, now=now, max_age=max_age, node_names=options.node_names, by_node=lists_each_node)
    if options.textfile is not None:
        _write_metrics(options.textfile, report, options.context)
    if options.json:
        print_json(asdict(report))
        for finding in report.findings:
            print_message(f"{finding.node or 'the cluster'}: {finding.reason}: {finding.message}")
    else:
        hint = _NO_REQUESTS_FROM_CLUSTER if options.node_file is None else _NO_REQUESTS_IN_FILE
        print_fleet(report, no_requests_hint=hint)
    return 4 if report.findings else 0


def _max_age(text: str) -> float:
    """The option --max-age in seconds. Raises UsageError."""
    try:
        seconds: float = _MAX_AGE_TYPE.parse(text)
    except ValueError as e:
        raise UsageError(f"--max-age {e}") from e
    return seconds


def _require_named(selected: Fleet, options: ClusterOptions) -> None:
    """Raises CapacitydError if a Node that the options name does not exist or is not selected."""
    selected_names = {node.name for node in selected.nodes}
    among = f" among those that match -l {options.selector}" if options.selector else ""
    for name in options.node_names:
        if name not in selected_names:
            raise CapacitydError(f'no Node "{name}"{among}')


def _write_metrics(path: str, report: FleetReport, context: str | None) -> None:
    """Replaces the metrics file. Raises CapacitydError if that fails."""
    try:
        replace_file(path, metrics_text(report, context), mode=0o644)
    except ImportError as e:
        raise CapacitydError("--textfile needs the package python3-prometheus-client") from e
    except OSError as e:
        raise CapacitydError(f"{path}: could not be written: {os.strerror(e.errno or 0)}") from e

"""fleet: the Nodes of a cluster that need attention, with the kubeconfig of whoever runs the command. Reads only."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from typing import NoReturn

from capacityd.cli import refuse_other_sources
from capacityd.cli.fleet.assess import Attention, FleetReport, ResourceSummary, assess
from capacityd.cli.output.terminal import clear_screen, print_json, print_line, print_table
from capacityd.model.errors import CapacitydError, NodeUnreachable, UsageError
from capacityd.model.fleet import Fleet
from capacityd.model.setting_types import Duration
from capacityd.model.text import printable
from capacityd.node.node_list import read_fleet

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""The label that groups Nodes by default."""

_MIN_POLL = 10.0
"""Seconds between two lists with --watch, at least."""
_POLL_SHARE = 20
"""A list that takes a second is repeated after this many seconds, so a large cluster is listed less often."""
_RESOURCE_HEADER = ("RESOURCE", "NODES", "CAPACITY", "ALLOCATABLE", "USUAL")
_ATTENTION_HEADER = ("NODE", "REASON", "MESSAGE")


def fleet(options: argparse.Namespace) -> int:
    """Prints a summary of each resource, and the Nodes that need attention; exit status 4 if there are any.

    Raises UsageError for an option that selects one machine or Node, CapacitydError if no Node is selected, NodeError.
    """
    refuse_other_sources(options, "fleet reads all Nodes of a cluster")
    max_age = _max_age(options.max_age)
    if options.watch:
        _watch(options, max_age)
    found = _read(options)
    if not found.nodes:
        which = f"no Node matches -l {options.selector}" if options.selector else "the cluster has no Nodes"
        raise CapacitydError(which)
    report = assess(found, max_age, time.time())
    _show(report, options.json)
    return 4 if report.attention else 0


def _max_age(text: str) -> float:
    try:
        return Duration(1.0, 365 * 86400.0).parse(text)
    except ValueError as e:
        raise UsageError(f"--max-age {e}") from e


def _read(options: argparse.Namespace) -> Fleet:
    label = INSTANCE_TYPE if options.by is None else options.by
    on_terminal = sys.stderr.isatty()
    try:
        found = read_fleet(options.kubeconfig, options.selector, label, _progress if on_terminal else lambda _: None)
    finally:
        if on_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)  # removes the progress line
    if options.by is not None and found.nodes and all(node.label is None for node in found.nodes):
        raise UsageError(f'no Node has the label "{label}" (--by)')
    return found


def _progress(count: int) -> None:
    """Shows on the terminal how many Nodes have been read."""
    print(f"\rreading Nodes: {count}", end="", file=sys.stderr, flush=True)


def _watch(options: argparse.Namespace, max_age: float) -> NoReturn:
    """Prints the report whenever it changes, until Ctrl-C. Raises CapacitydError, but not NodeUnreachable."""
    shown = None
    while True:
        began = time.monotonic()
        try:
            report = assess(_read(options), max_age, time.time())
        except NodeUnreachable as e:
            print(f"capacityd: {printable(str(e))}", file=sys.stderr)
        else:
            if report != shown:
                clear_screen()
                _show(report, options.json)
                sys.stdout.flush()
            shown = report
        time.sleep(max(_MIN_POLL, _POLL_SHARE * (time.monotonic() - began)))


def _show(report: FleetReport, json: bool) -> None:
    if json:
        print_json(asdict(report))
        return
    print_line(_headline(report))
    if report.resources:
        print_line()
    print_table(map(_resource_row, report.resources), _RESOURCE_HEADER)
    if report.attention:
        print_line()
    print_table(map(_attention_row, report.attention), _ATTENTION_HEADER)


def _headline(report: FleetReport) -> str:
    nodes = f"{report.nodes} Node{'s'[: report.nodes != 1]}"
    if not report.resources and not report.attention:
        return f"{nodes}; capacityd publishes nothing"
    number = sum(attention.node is not None for attention in report.attention)
    needing = f"{number} need{'s'[: number == 1]} attention" if number else "none needs attention"
    return f"{nodes}, {needing}"


def _resource_row(resource: ResourceSummary) -> tuple[str, ...]:
    numbers = (resource.nodes, resource.capacity, resource.allocatable, resource.usual)
    return resource.name, *map(str, numbers)


def _attention_row(attention: Attention) -> tuple[str, ...]:
    return attention.node or "(cluster)", ",".join(attention.reasons), attention.message

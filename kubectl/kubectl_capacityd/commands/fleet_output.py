"""Prints the report for `fleet`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain

from capacityd.cli.output.terminal import listed, print_line, print_table
from capacityd.model.text import duration_text, plural
from kubectl_capacityd.fleet.assess import FleetReport, NodeReport, ResourceSummary, rank
from kubectl_capacityd.fleet.findings import SUSPICIONS, Finding, count_by_reason

_MAX_NAMES = 3
"""Number of Nodes to list for a group."""
_CLUSTER = "(cluster)"
"""Text instead of a Node's name, for a finding about the cluster as a whole."""
_READY_TEXTS = {True: "Ready", False: "NotReady", None: "Unknown"}
_RESOURCE_HEADER = ("RESOURCE", "NODES", "USUAL", "CAPACITY", "ALLOCATABLE", "REQUESTED", "FREE", "WAITING")
_NODE_HEADER = ("NODE", "STATUS", "RESOURCE", "CAPACITY", "ALLOCATABLE", "REQUESTED", "FREE")
_FINDING_HEADER = ("", "REASON", "SINCE", "NOTREADY", "CORDONED", "NODES", "MESSAGE")


def print_fleet(report: FleetReport, *, no_requests_hint: str) -> None:
    """Prints the report. no_requests_hint: why pods' requests may be unknown, and the remedy."""
    print_line(_headline(report))
    if report.findings:
        counts = count_by_reason(report.findings)
        print_line(", ".join(f"{count} {reason}" for reason, count in counts.items()))
    if report.resources:
        print_line()
        print_table(map(_resource_row, report.resources), _RESOURCE_HEADER)
        if any(resource.requested is None for resource in report.resources):
            print_line(f"requested and free are not known: {no_requests_hint}")
    if report.by_node:
        print_line()
        node_rows = chain.from_iterable(map(_node_rows, report.by_node))
        print_table(node_rows, _NODE_HEADER)
    if report.findings:
        print_line()
        group_rows = [_group_row(group, report.as_of) for group in _groups(report.findings)]
        print_table(group_rows, _FINDING_HEADER, signs=True)


def _headline(report: FleetReport) -> str:
    nodes = plural(report.nodes, "Node")
    read_at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(report.as_of))
    as_of = f" (as of {read_at} UTC)"
    if not report.resources and not report.findings:
        return f"{nodes}; capacityd publishes nothing{as_of}"
    names = {finding.node for finding in report.findings if finding.node is not None}
    attention = {0: "none needs attention", 1: "1 needs attention"}.get(len(names), f"{len(names)} need attention")
    return f"{nodes}, {attention}{as_of}"


def _resource_row(resource: ResourceSummary) -> tuple[str, ...]:
    """The row for a resource, with the columns of _RESOURCE_HEADER."""
    return (
        resource.name,
        str(resource.nodes),
        str(resource.usual),
        str(resource.capacity),
        str(resource.allocatable),
        _number_text(resource.requested),
        _number_text(resource.free),
        _number_text(resource.waiting),
    )


def _node_rows(node: NodeReport) -> Iterator[tuple[str, ...]]:
    """Yields a row for each resource of a Node, with the columns of _NODE_HEADER."""
    status = _status(node)
    if not node.resources:
        yield node.node, status, "", "", "", "", ""
    for resource in node.resources:
        yield (
            node.node,
            status,
            resource.name,
            str(resource.capacity),
            str(resource.allocatable),
            _number_text(resource.requested),
            _number_text(resource.free),
        )


def _number_text(number: int | None) -> str:
    return "" if number is None else str(number)


def _status(node: NodeReport) -> str:
    """The column STATUS of kubectl get nodes, abbreviated."""
    ready = _READY_TEXTS[node.ready]
    return f"{ready},cordoned" if node.cordoned else ready


def _groups(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings with the same reason and the same shared message, most severe first, then largest first."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.reason, finding.shared_message), []).append(finding)
    return sorted(groups.values(), key=_group_order)


def _group_order(group: Sequence[Finding]) -> tuple[int, str, int]:
    """A key that sorts groups by severity, then by reason, then the largest first."""
    reason = group[0].reason
    return rank(reason), reason, -len(group)


def _group_row(group: Sequence[Finding], now: float) -> tuple[str, ...]:
    """The row for findings with the same shared message, with the columns of _FINDING_HEADER.

    now: in seconds since the epoch.
    """
    reason = group[0].reason
    sign = "~" if reason in SUSPICIONS else "!"
    names = sorted(finding.node for finding in group if finding.node is not None)
    counted_reason = f"{reason} x{len(names)}" if len(names) > 1 else reason
    starts = [finding.since for finding in group if finding.since is not None]
    since = duration_text(now - min(starts)) if starts else ""
    not_ready = [finding for finding in group if finding.ready is False]
    cordoned = [finding for finding in group if finding.cordoned]
    nodes = listed(names, most=_MAX_NAMES) if names else _CLUSTER
    # The message of a single finding may say more than the shared message.
    message = group[0].message if len(group) == 1 else group[0].shared_message
    return sign, counted_reason, since, _count_text(not_ready), _count_text(cordoned), nodes, message


def _count_text(findings: Sequence[Finding]) -> str:
    """The number of findings; "" for none."""
    return str(len(findings)) if findings else ""

"""Prints the report for `fleet`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from capacityd.cli.output.terminal import listed, print_line, print_table
from capacityd.model.text import duration_text, plural
from kubectl_capacityd.fleet.assess import FleetReport, NodeReport, ResourceSummary, rank
from kubectl_capacityd.fleet.findings import OUTLIERS, Finding, nodes_by_reason

_MAX_NAMES = 3
"""Number of Nodes to list for a group."""
_CLUSTER = "(cluster)"
"""Text instead of a Node's name, for a finding about the cluster as a whole."""
_OUTLIERS = frozenset(reason.value for reason in OUTLIERS)


def print_fleet(report: FleetReport, *, no_requests_hint: str) -> None:
    """Prints the report. no_requests_hint: why pods' requests may be unknown, and the remedy."""
    print_line(_headline(report))
    if report.findings:
        counts = {reason: len(nodes) for reason, nodes in nodes_by_reason(report.findings).items()}
        print_line(", ".join(f"{count} {reason}" for reason, count in counts.items()))
    if report.resources:
        print_line()
        _print_resources(report.resources)
        if any(resource.requested is None for resource in report.resources):
            print_line(f"requested and free are not known: {no_requests_hint}")
    if report.by_node:
        print_line()
        _print_nodes(report.by_node)
    if report.findings:
        print_line()
        _print_groups(report.findings, report.as_of)


def _headline(report: FleetReport) -> str:
    nodes = plural(report.nodes, "Node")
    as_of = f" (as of {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(report.as_of))} UTC)"
    if not report.resources and not report.findings:
        return f"{nodes}; capacityd publishes nothing{as_of}"
    number = len({finding.node for finding in report.findings if finding.node is not None})
    if number == 0:
        attention = "none needs attention"
    elif number == 1:
        attention = "1 needs attention"
    else:
        attention = f"{number} need attention"
    return f"{nodes}, {attention}{as_of}"


def _print_resources(resources: Sequence[ResourceSummary]) -> None:
    header = ("RESOURCE", "NODES", "USUAL", "CAPACITY", "ALLOCATABLE", "REQUESTED", "FREE", "WAITING")
    rows = []
    for r in resources:
        numbers = (r.nodes, r.usual, r.capacity, r.allocatable, r.requested, r.free, r.waiting)
        rows.append((r.name, *map(_number_text, numbers)))
    print_table(rows, header)


def _print_nodes(nodes: Sequence[NodeReport]) -> None:
    rows = [row for node in nodes for row in _node_rows(node)]
    print_table(rows, ("NODE", "STATUS", "RESOURCE", "CAPACITY", "ALLOCATABLE", "REQUESTED", "FREE"))


def _node_rows(node: NodeReport) -> Iterator[tuple[str, ...]]:
    status = _status(node)
    if not node.resources:
        yield node.node, status, "", "", "", "", ""
    for r in node.resources:
        numbers = (r.capacity, r.allocatable, r.requested, r.free)
        yield node.node, status, r.name, *map(_number_text, numbers)


def _number_text(number: int | None) -> str:
    return "" if number is None else str(number)


def _print_groups(findings: Sequence[Finding], now: float) -> None:
    """Prints a row for all findings with the same reason and the same shared message."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.reason, finding.shared_message), []).append(finding)
    largest_first = sorted(groups.values(), key=lambda group: -len(group))
    most_severe_first = sorted(largest_first, key=lambda group: (rank(group[0].reason), group[0].reason))
    header = ("", "REASON", "SINCE", "NOTREADY", "CORDONED", "NODES", "MESSAGE")
    print_table([_group_row(group, now) for group in most_severe_first], header, signs=True)


def _group_row(group: Sequence[Finding], now: float) -> tuple[str, ...]:
    first = group[0]
    names = sorted(finding.node for finding in group if finding.node is not None)
    number_of_nodes = f" x{len(names)}" if len(names) > 1 else ""
    not_ready = len([finding for finding in group if finding.ready is False])
    cordoned = len([finding for finding in group if finding.cordoned])
    earliest = min((finding.since for finding in group if finding.since is not None), default=None)
    return (
        _sign(first.reason),
        f"{first.reason}{number_of_nodes}",
        _since(earliest, now),
        str(not_ready or ""),
        str(cordoned or ""),
        listed(names, most=_MAX_NAMES) or _CLUSTER,
        # The message of a single finding may say more than the shared message.
        first.message if len(group) == 1 else first.shared_message,
    )


def _sign(reason: str) -> str:
    """The sign of a row: "~" for a suspicion (findings.OUTLIERS), otherwise "!"."""
    return "~" if reason in _OUTLIERS else "!"


def _since(since: float | None, now: float) -> str:
    """How long ago something began. since, now: in seconds since the epoch."""
    return "" if since is None else duration_text(now - since)


def _status(node: NodeReport) -> str:
    """The column STATUS of kubectl get nodes, abbreviated."""
    ready = {True: "Ready", False: "NotReady", None: "Unknown"}[node.ready]
    return f"{ready},cordoned" if node.cordoned else ready

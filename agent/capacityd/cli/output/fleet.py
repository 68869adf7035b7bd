"""Prints the report for `fleet`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from capacityd.cli.fleet.assess import Attention, FleetReport, Group, NodeReport, ResourceSummary, rank
from capacityd.cli.fleet.findings import OUTLIERS
from capacityd.cli.output.terminal import listed, print_line, print_table
from capacityd.model.text import duration_text, plural

_MAX_NAMES = 3
"""Nodes to list for a group."""
_CLUSTER = "(cluster)"
_OUTLIERS = frozenset(reason.value for reason in OUTLIERS)


def print_fleet(report: FleetReport, *, every_node: bool, requests_hint: str) -> None:
    """Prints the report. every_node: print a row for each Node that needs attention, not for each group.

    requests_hint: what to do to show requests.
    """
    print_line(_headline(report))
    if counts := _counts_by_reason(report.groups):
        print_line(counts)
    if report.resources:
        print_line()
        _print_resources(report.resources)
        if any(resource.requested is None for resource in report.resources):
            print_line(f"requested and free are not known: {requests_hint}")
    if report.by_node:
        print_line()
        _print_nodes(report.by_node)
    if report.attention:
        print_line()
        if every_node:
            _print_attention(report.attention, report.as_of)
        else:
            _print_groups(report.groups, report.as_of)


def _headline(report: FleetReport) -> str:
    nodes = plural(report.nodes, "Node")
    as_of = f" (as of {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(report.as_of))} UTC)"
    if not report.resources and not report.attention:
        return f"{nodes}; capacityd publishes nothing{as_of}"
    number = sum(subject.node is not None for subject in report.attention)
    attention = "none needs attention"
    if number:
        attention = "1 needs attention" if number == 1 else f"{number} need attention"
    return f"{nodes}, {attention}{as_of}"


def _counts_by_reason(groups: Sequence[Group]) -> str:
    """The number of Nodes for each reason, most severe reason first."""
    nodes: dict[str, set[str]] = {}
    for group in groups:
        nodes.setdefault(group.reason, set()).update(group.nodes or [_CLUSTER])
    return ", ".join(f"{len(names)} {reason}" for reason, names in nodes.items())


def _print_resources(resources: Sequence[ResourceSummary]) -> None:
    rows = [
        (r.name, *map(_number, (r.nodes, r.usual, r.capacity, r.allocatable, r.requested, r.free, r.waiting)))
        for r in resources
    ]
    print_table(rows, ("RESOURCE", "NODES", "USUAL", "CAPACITY", "ALLOCATABLE", "REQUESTED", "FREE", "WAITING"))


def _print_nodes(nodes: Sequence[NodeReport]) -> None:
    rows = [row for node in nodes for row in _node_rows(node)]
    print_table(rows, ("NODE", "STATUS", "RESOURCE", "CAPACITY", "ALLOCATABLE", "REQUESTED", "FREE"))


def _node_rows(node: NodeReport) -> Iterator[tuple[str, ...]]:
    status = _status(node)
    if not node.resources:
        yield node.node, status, *[""] * 5
    for r in node.resources:
        yield node.node, status, r.name, *map(_number, (r.capacity, r.allocatable, r.requested, r.free))


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


def _print_groups(groups: Sequence[Group], now: float) -> None:
    rows = [
        (
            _sign(group.reason),
            group.reason + (f" x{len(group.nodes)}" if len(group.nodes) > 1 else ""),
            _since(group.since, now),
            str(group.not_ready or ""),
            str(group.cordoned or ""),
            listed(group.nodes, _MAX_NAMES) or _CLUSTER,
            group.message,
        )
        for group in groups
    ]
    header = ("", "REASON", "SINCE", "NOTREADY", "CORDONED", "NODES", "MESSAGE")
    print_table(rows, header, signs=True)


def _print_attention(attention: Sequence[Attention], now: float) -> None:
    ordered = sorted(attention, key=lambda subject: (rank(subject.reasons[0]), subject.reasons[0], subject.node or ""))
    rows = [
        (
            _sign(subject.reasons[0]),
            subject.node or _CLUSTER,
            ",".join(subject.reasons),
            _since(subject.since, now),
            _status(subject) if subject.node else "",
            subject.message,
        )
        for subject in ordered
    ]
    print_table(rows, ("", "NODE", "REASON", "SINCE", "STATUS", "MESSAGE"), signs=True)


def _sign(reason: str) -> str:
    return "~" if reason in _OUTLIERS else "!"


def _since(since: float | None, now: float) -> str:
    return "" if since is None else duration_text(now - since)


def _status(node: NodeReport | Attention) -> str:
    """The status in kubectl get nodes, abbreviated."""
    words = {True: "Ready", False: "NotReady", None: "Unknown"}
    return words[node.ready] + (",cordoned" if node.cordoned else "")

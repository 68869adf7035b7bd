"""Prints the report for `fleet`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from capacityd.cli.output.terminal import listed, print_line, print_table
from capacityd.model.text import duration_text, plural
from kubectl_capacityd.fleet.assess import Attention, FleetReport, Group, NodeReport, ResourceSummary, rank
from kubectl_capacityd.fleet.findings import OUTLIERS

_MAX_NAMES = 3
"""Number of Nodes to list for a group."""
_CLUSTER = "(cluster)"
"""In place of a Node's name, for a finding about the cluster as a whole."""
_OUTLIERS = frozenset(reason.value for reason in OUTLIERS)


def print_fleet(report: FleetReport, *, ungrouped: bool, no_requests_hint: str) -> None:
    """Prints the report. ungrouped: print a row for each Node that needs attention, not for each group.

    no_requests_hint: why the requests are unknown, if they are, and what to do about it.
    """
    print_line(_headline(report))
    if counts := _counts_by_reason(report.groups):
        print_line(counts)
    if report.resources:
        print_line()
        _print_resources(report.resources)
        if any(resource.requested is None for resource in report.resources):
            print_line(f"requested and free are not known: {no_requests_hint}")
    if report.by_node:
        print_line()
        _print_nodes(report.by_node)
    if report.attention:
        print_line()
        if ungrouped:
            _print_attention(report.attention, report.as_of)
        else:
            _print_groups(report.groups, report.as_of)


def _headline(report: FleetReport) -> str:
    nodes = plural(report.nodes, "Node")
    as_of = f" (as of {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(report.as_of))} UTC)"
    if not report.resources and not report.attention:
        return f"{nodes}; capacityd publishes nothing{as_of}"
    number = len([subject for subject in report.attention if subject.node is not None])
    if number == 0:
        attention = "none needs attention"
    elif number == 1:
        attention = "1 needs attention"
    else:
        attention = f"{number} need attention"
    return f"{nodes}, {attention}{as_of}"


def _counts_by_reason(groups: Sequence[Group]) -> str:
    """The number of Nodes for each reason, in the order of the groups. The cluster as a whole counts as 1."""
    names_by_reason: dict[str, set[str]] = {}
    for group in groups:
        names_by_reason.setdefault(group.reason, set()).update(group.nodes or [_CLUSTER])
    return ", ".join(f"{len(names)} {reason}" for reason, names in names_by_reason.items())


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


def _print_groups(groups: Sequence[Group], now: float) -> None:
    header = ("", "REASON", "SINCE", "NOTREADY", "CORDONED", "NODES", "MESSAGE")
    print_table([_group_row(group, now) for group in groups], header, signs=True)


def _group_row(group: Group, now: float) -> tuple[str, ...]:
    number_of_nodes = f" x{len(group.nodes)}" if len(group.nodes) > 1 else ""
    return (
        _sign(group.reason),
        f"{group.reason}{number_of_nodes}",
        _since(group.since, now),
        str(group.not_ready or ""),
        str(group.cordoned or ""),
        listed(group.nodes, most=_MAX_NAMES) or _CLUSTER,
        group.message,
    )


def _print_attention(attention: Sequence[Attention], now: float) -> None:
    header = ("", "NODE", "REASON", "SINCE", "STATUS", "MESSAGE")
    print_table([_attention_row(subject, now) for subject in sorted(attention, key=_severity)], header, signs=True)


def _severity(subject: Attention) -> tuple[int, str, str]:
    """A key that sorts Nodes: by their most severe reasons, then by their names."""
    most_severe = subject.reasons[0]
    return rank(most_severe), most_severe, subject.node or ""


def _attention_row(subject: Attention, now: float) -> tuple[str, ...]:
    most_severe = subject.reasons[0]
    return (
        _sign(most_severe),
        subject.node or _CLUSTER,
        ",".join(subject.reasons),
        _since(subject.since, now),
        _status(subject) if subject.node else "",
        subject.message,
    )


def _sign(reason: str) -> str:
    """The sign of a row: "~" for a suspicion (findings.OUTLIERS), otherwise "!"."""
    return "~" if reason in _OUTLIERS else "!"


def _since(since: float | None, now: float) -> str:
    """How long ago something began. since, now: in seconds since the epoch."""
    return "" if since is None else duration_text(now - since)


def _status(node: NodeReport | Attention) -> str:
    """The status in kubectl get nodes, abbreviated."""
    ready = {True: "Ready", False: "NotReady", None: "Unknown"}[node.ready]
    return f"{ready},cordoned" if node.cordoned else ready

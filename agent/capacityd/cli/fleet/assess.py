"""The report about a fleet: its resources, the Nodes that need attention, and groups of identical findings. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from capacityd.cli.fleet.cluster_findings import clashes, overlay_differences
from capacityd.cli.fleet.findings import (
    OUTLIERS,
    Finding,
    Reason,
    findings_of_node,
    norm_of,
    overcommitments,
)
from capacityd.model.fleet import Fleet, NodeSummary
from capacityd.model.node import ConditionReason

_LAST = (Reason.ANNOTATION_UNREADABLE, *OUTLIERS)
_FIRST = (*(reason for reason in Reason if reason not in _LAST), *ConditionReason)
_RANKS = {reason.value: rank for rank, reason in enumerate(_FIRST)}
_RANKS |= {reason.value: len(_FIRST) + 1 + rank for rank, reason in enumerate(_LAST)}


@dataclass(frozen=True, slots=True)
class ResourceSummary:
    """A resource, summarized over all Nodes that publish it."""

    name: str
    nodes: int
    capacity: int
    allocatable: int
    usual: int
    """The quantity on most of the Nodes."""
    requested: int | None = None
    """The sum requested by unfinished pods on these Nodes. None: the user may not list pods."""
    free: int | None = None
    """The sum of allocatable minus requested; a Node counts as 0 if its pods request more than is allocatable."""
    waiting: int | None = None
    """Number of pods that request the resource and are not bound to a Node."""


@dataclass(frozen=True, slots=True)
class NodeResource:
    """A resource on one Node."""

    name: str
    capacity: int
    allocatable: int
    requested: int | None
    free: int | None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A Node, with the resources that capacityd publishes on it."""

    node: str
    ready: bool | None
    cordoned: bool
    resources: tuple[NodeResource, ...]


@dataclass(frozen=True, slots=True)
class Attention:
    """A Node that needs attention."""

    node: str | None
    """The Node's name; None for the cluster as a whole."""
    reasons: tuple[str, ...]
    """The reasons, most severe first."""
    message: str
    since: float | None = None
    """Since when, in seconds since the epoch; None if the Node does not show it."""
    ready: bool | None = None
    """None: unknown, or the finding concerns the cluster."""
    cordoned: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Findings with the same reason and the same message."""

    reason: str
    message: str
    nodes: tuple[str, ...]
    """The Nodes' names; empty for the cluster as a whole."""
    since: float | None
    """The earliest time of the Nodes' findings."""
    not_ready: int
    """Number of these Nodes that are not ready."""
    cordoned: int


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The report that `fleet` prints."""

    nodes: int
    resources: tuple[ResourceSummary, ...]
    attention: tuple[Attention, ...]
    groups: tuple[Group, ...] = ()
    """The groups, most severe first."""
    by_node: tuple[NodeReport, ...] | None = None
    """None if the report was requested without it."""
    as_of: float = 0.0
    """When the Nodes were read, in seconds since the epoch."""


def assess(
    fleet: Fleet, now: float, max_age: float, names: Sequence[str] = (), *, by_node: bool = False
) -> FleetReport:
    """Compares each Node with its last applied quantities, and with the other Nodes of its group.

    now: in seconds since the epoch. max_age: seconds after which a heartbeat is overdue. names: the Nodes to report,
    each compared with its whole group; empty: all. by_node: whether to list each Node's resources.
    """
    groups: dict[str | None, list[NodeSummary]] = {}
    for node in fleet.nodes:
        groups.setdefault(node.label, []).append(node)
    norms = {label: norm_of(label, members) for label, members in groups.items()}
    reported = [node for node in fleet.nodes if not names or node.name in names]
    published = sorted({name for node in reported for name in node.annotated})
    of_cluster = [*clashes(fleet, published), *overlay_differences(fleet.nodes, published)]
    findings_by_node: list[tuple[NodeSummary | None, list[Finding]]] = [(None, of_cluster)]
    # Pods that a DeviceClass serves also request the resource, but do not use the Node's capacity.
    counted = sorted({name for node in fleet.nodes for name in node.annotated} - fleet.device_classes.keys())
    for node in reported:
        findings = [*findings_of_node(node, norms[node.label], now, max_age)]
        if fleet.requests is not None:
            findings += overcommitments(node, fleet.requests, counted)
        findings_by_node.append((node, findings))
    return FleetReport(
        len(reported),
        tuple(_summaries(fleet, reported)),
        tuple(_attention(node, findings) for node, findings in findings_by_node if findings),
        tuple(_groups(findings_by_node)),
        tuple(_node_report(fleet, node) for node in reported) if by_node else None,
        now,
    )


def rank(reason: str) -> int:
    """The rank of a reason; the most severe reason has the lowest.

    Reasons of a condition that this version does not know follow those that it knows.
    """
    return _RANKS.get(reason, len(_FIRST))


def _attention(node: NodeSummary | None, findings: Sequence[Finding]) -> Attention:
    ordered = sorted(findings, key=lambda finding: rank(finding.reason))
    return Attention(
        node.name if node else None,
        tuple(dict.fromkeys(finding.reason for finding in ordered)),
        "; ".join(finding.message for finding in ordered),
        _earliest(finding.since for finding in findings),
        node.ready if node else None,
        node.cordoned if node else False,
    )


def _groups(findings_by_node: Iterable[tuple[NodeSummary | None, Sequence[Finding]]]) -> list[Group]:
    members_by_key: dict[tuple[str, str], list[tuple[NodeSummary | None, Finding]]] = {}
    for node, findings in findings_by_node:
        for finding in findings:
            members_by_key.setdefault((finding.reason, finding.shared_message), []).append((node, finding))
    groups = [_group(reason, message, members) for (reason, message), members in members_by_key.items()]
    return sorted(groups, key=lambda group: (rank(group.reason), group.reason, -len(group.nodes), group.message))


def _group(reason: str, message: str, members: Sequence[tuple[NodeSummary | None, Finding]]) -> Group:
    nodes = sorted((node for node, _ in members if node is not None), key=lambda node: node.name)
    if len(members) == 1:
        message = members[0][1].message
    return Group(
        reason,
        message,
        tuple(node.name for node in nodes),
        _earliest(finding.since for _, finding in members),
        sum(node.ready is False for node in nodes),
        sum(node.cordoned for node in nodes),
    )


def _earliest(times: Iterable[float | None]) -> float | None:
    return min((time for time in times if time is not None), default=None)


def _summaries(fleet: Fleet, nodes: Sequence[NodeSummary]) -> Iterator[ResourceSummary]:
    for name in sorted({name for node in nodes for name in node.annotated}):
        publishing = [node for node in nodes if name in node.annotated]
        quantities = Counter(node.capacity.get(name, 0) for node in publishing)
        usual = max(quantities, key=lambda quantity: (quantities[quantity], quantity))
        of_nodes = [_node_resource(fleet, node, name) for node in publishing]
        yield ResourceSummary(
            name,
            nodes=len(publishing),
            capacity=sum(resource.capacity for resource in of_nodes),
            allocatable=sum(resource.allocatable for resource in of_nodes),
            usual=usual,
            requested=None if fleet.requests is None else sum(resource.requested or 0 for resource in of_nodes),
            free=None if fleet.requests is None else sum(resource.free or 0 for resource in of_nodes),
            waiting=None if fleet.requests is None else fleet.requests.waiting.get(name, 0),
        )


def _node_report(fleet: Fleet, node: NodeSummary) -> NodeReport:
    resources = (_node_resource(fleet, node, name) for name in sorted(node.annotated))
    return NodeReport(node.name, node.ready, node.cordoned, tuple(resources))


def _node_resource(fleet: Fleet, node: NodeSummary, name: str) -> NodeResource:
    capacity, allocatable = node.capacity.get(name, 0), node.allocatable.get(name, 0)
    if fleet.requests is None:
        return NodeResource(name, capacity, allocatable, None, None)
    requested = fleet.requests.by_node.get(node.name, {}).get(name, 0)
    return NodeResource(name, capacity, allocatable, requested, max(0, allocatable - requested))

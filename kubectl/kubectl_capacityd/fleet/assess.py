"""The report about a fleet: its resources, and what needs attention."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from capacityd.model.node import ConditionReason
from kubectl_capacityd.fleet.findings import (
    SUSPICIONS,
    Finding,
    Reason,
    device_class_findings,
    findings_of_node,
    overcommitment_findings,
)
from kubectl_capacityd.fleet.norm import norm_of
from kubectl_capacityd.model import Fleet, NodeSummary, published_names

_ERRORS = tuple(reason.value for reason in (*Reason, *ConditionReason) if reason.value not in SUSPICIONS)
_BY_SEVERITY = (*_ERRORS, *SUSPICIONS)
"""The values of all reasons, most severe first."""


@dataclass(frozen=True, slots=True)
class ResourceSummary:
    """A resource, summarized over all Nodes that publish it."""

    name: str
    nodes: int
    capacity: int
    allocatable: int
    usual: int
    """The most frequent quantity on these Nodes."""
    requested: int | None = None
    """The sum that unfinished pods on these Nodes request; None if the pods are unknown."""
    free: int | None = None
    """The sum of NodeResource.free on these Nodes; None if the pods are unknown."""
    waiting: int | None = None
    """Number of pods that request the resource and are not bound to a Node; None if the pods are unknown."""


@dataclass(frozen=True, slots=True)
class NodeResource:
    """A resource on one Node."""

    name: str
    capacity: int
    allocatable: int
    requested: int | None = None
    """The sum that the Node's unfinished pods request; None if the pods are unknown."""
    free: int | None = None
    """Allocatable minus requested, at least 0; None if the pods are unknown."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A Node, with the resources that capacityd publishes on it."""

    node: str
    """The Node's name."""
    ready: bool | None
    """Whether the condition Ready is True; None if the Node has no such condition."""
    cordoned: bool
    resources: tuple[NodeResource, ...]


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The report that `fleet` prints."""

    nodes: int
    resources: tuple[ResourceSummary, ...]
    findings: tuple[Finding, ...]
    """What needs attention, most severe first."""
    by_node: tuple[NodeReport, ...] | None = None
    """The Nodes with their resources; None if the report was requested without them."""
    as_of: float = 0.0
    """When the Nodes were read, in seconds since the epoch."""


def assess(
    fleet: Fleet, now: float, max_age: float, node_names: Sequence[str] = (), *, by_node: bool = False
) -> FleetReport:
    """Compares each Node with its published quantities, and with the other Nodes of its group.

    now: in seconds since the epoch. max_age: seconds after which a heartbeat is overdue. node_names: the Nodes to
    report, which are compared with all Nodes of their groups; empty for all. by_node: whether to list each Node's
    resources.
    """
    groups: dict[str | None, list[NodeSummary]] = {}  # value of the label that groups Nodes -> its Nodes
    for node in fleet.nodes:
        groups.setdefault(node.label_value, []).append(node)
    norms = {label_value: norm_of(label_value, nodes) for label_value, nodes in groups.items()}
    reported = [node for node in fleet.nodes if not node_names or node.name in node_names]
    names = published_names(reported)
    findings = list(device_class_findings(fleet, names))
    # If a DeviceClass also serves a resource, some of the requests do not use the Node's capacity.
    may_overcommit = [name for name in published_names(fleet.nodes) if name not in fleet.device_classes]
    for node in reported:
        node_findings = list(findings_of_node(node, norms[node.label_value], now=now, max_age=max_age))
        if fleet.requests is not None:
            node_findings += overcommitment_findings(node, fleet.requests, may_overcommit)
        findings += [
            replace(finding, node=node.name, ready=node.ready, cordoned=node.cordoned) for finding in node_findings
        ]
    node_reports = None
    if by_node:
        node_reports = tuple(_node_report(fleet, node) for node in reported)
    return FleetReport(
        nodes=len(reported),
        resources=tuple(_summary(fleet, reported, name) for name in names),
        findings=tuple(sorted(findings, key=_severity)),
        by_node=node_reports,
        as_of=now,
    )


def _severity(finding: Finding) -> tuple[int, str, str]:
    """A key that sorts findings by severity, then by reason and Node."""
    return rank(finding.reason), finding.reason, finding.node or ""


def rank(reason: str) -> int:
    """The rank of a reason. The most severe reason has rank 0. A reason of a newer version of capacityd comes last."""
    return _BY_SEVERITY.index(reason) if reason in _BY_SEVERITY else len(_BY_SEVERITY)


def _summary(fleet: Fleet, nodes: Sequence[NodeSummary], name: str) -> ResourceSummary:
    """The summary of a resource over the Nodes that publish it."""
    publishing = [node for node in nodes if name in node.published]
    node_resources = [_node_resource(fleet, node, name) for node in publishing]
    capacities = [resource.capacity for resource in node_resources]
    summary = ResourceSummary(
        name,
        nodes=len(publishing),
        capacity=sum(capacities),
        allocatable=sum(resource.allocatable for resource in node_resources),
        usual=max(statistics.multimode(capacities)),  # of several equally frequent quantities, the largest
    )
    if fleet.requests is None:
        return summary
    return replace(
        summary,
        requested=sum(resource.requested or 0 for resource in node_resources),
        free=sum(resource.free or 0 for resource in node_resources),
        waiting=fleet.requests.waiting.get(name, 0),
    )


def _node_report(fleet: Fleet, node: NodeSummary) -> NodeReport:
    resources = tuple(_node_resource(fleet, node, name) for name in sorted(node.published))
    return NodeReport(node.name, ready=node.ready, cordoned=node.cordoned, resources=resources)


def _node_resource(fleet: Fleet, node: NodeSummary, name: str) -> NodeResource:
    capacity = node.capacity.get(name, 0)
    allocatable = node.allocatable.get(name, 0)
    if fleet.requests is None:
        return NodeResource(name, capacity=capacity, allocatable=allocatable)
    requested = fleet.requests.by_node.get(node.name, {}).get(name, 0)
    free = max(0, allocatable - requested)
    return NodeResource(name, capacity=capacity, allocatable=allocatable, requested=requested, free=free)

"""Samples in Prometheus' form: from nodes with capacityd (made by the service's code), and from kube-state-metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from capacityd.model.key import Key
from capacityd.model.node import CONDITION, Condition, ConditionReason, Stored
from capacityd.model.plan import Action, Change, Trouble
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.schema.config import Config, Resource, Settings
from capacityd.worker import metrics
from capacityd.worker.pass_state import PassStatus

DONGLE, SEATS, GPU = "example.com/dongle", "example.com/seats", "example.com/gpu"
RESYNC = 3600.0

Scrape = Mapping[str, float]
"""The value of each series."""


@dataclass(frozen=True, slots=True)
class NodeAt:
    """The state of the service on a node after its last pass. Times are in seconds since the epoch."""

    last_reconcile: float
    last_success: float
    name: str = "n1"
    readings: Mapping[str, int | str | None] = field(default_factory=lambda: {DONGLE: 4, SEATS: 10})
    """The reading of each resource: a quantity, None (absent), or the reason why it is unknown."""
    published: Mapping[str, int] = field(default_factory=lambda: {DONGLE: 4, SEATS: 10})
    troubles: Mapping[str, ConditionReason] = field(default_factory=dict)
    """The trouble that the plan has found with a resource. Unknown readings need not be listed."""
    observe: bool = False
    hash: str = "5d0c8e1f"  # of the configuration
    condition: tuple[str, str] = ("Published", "True")  # the reason and the status


def config_of(node: NodeAt) -> Config:
    """The configuration of this node, which expects four dongles."""
    resources = (Resource(DONGLE, "usb", (), expect=4), Resource(SEATS, "file", ()), Resource(GPU, "pci", ()))
    return Config(resources, Settings(observe=node.observe, resync=RESYNC), digest=node.hash)


def text_of(node: NodeAt) -> bytes:
    """The node's metrics file, as the service writes it."""
    reason, condition_status = node.condition
    status = PassStatus(
        node.last_reconcile,
        readings={name: _reading(value) for name, value in node.readings.items()},
        node=node.name,
        changes=tuple(_kept(name, number) for name, number in node.published.items()),
        troubles=tuple(Trouble(reason, "why", Key(name)) for name, reason in node.troubles.items()),
        condition=Condition(condition_status, reason, ""),
        succeeded_at=node.last_success,
    )
    return metrics.metrics_text(config_of(node), status)


def _kept(name: str, number: int) -> Change:
    stored = Stored(str(number), str(number))
    return Change(Key(name), Action.KEEP, stored, desired=number, published=number, reason="as published")


def _reading(value: int | str | None) -> Reading:
    if isinstance(value, str):
        return Unknown(value)
    return Absent("none") if value is None else Quantity(value)


def scrape(instance: str, node: NodeAt | None) -> Scrape:
    """The series of one scrape of node_exporter. node: None if there is no metrics file."""
    target = {"instance": instance, "job": "node"}
    nodename = node.name if node else instance
    samples = {series("up", **target): 1.0, series("node_uname_info", nodename=nodename, **target): 1.0}
    if node is not None:
        for family in text_string_to_metric_families(text_of(node).decode()):
            for sample in family.samples:
                samples[series(sample.name, **sample.labels, **target)] = sample.value
    return samples


def kube_state(node: str, condition: str | None) -> Scrape:
    """The series of kube-state-metrics. condition: "true", "false" or "unknown". None: the Node lacks the condition."""
    samples = {series("kube_node_info", node=node): 1.0}
    for status in ("true", "false", "unknown") if condition else ():
        labels = {"node": node, "condition": CONDITION, "status": status}
        samples[series("kube_node_status_condition", **labels)] = float(status == condition)
    return samples


@dataclass(frozen=True, slots=True)
class PodAt:
    """A pod with its requests."""

    name: str
    node: str
    """The name of its Node, or "" before it is bound."""
    containers: Mapping[str, int] = field(default_factory=dict)
    """The dongles that each container requests."""
    sidecars: Mapping[str, int] = field(default_factory=dict)
    init_containers: Mapping[str, int] = field(default_factory=dict)
    resource: str = DONGLE
    phase: str = "Running"


def kube_allocatable(node: str, quantities: Mapping[str, int]) -> Scrape:
    """The allocatable of a Node, as kube-state-metrics exports it."""
    samples = {series("kube_node_status_allocatable", node=node, resource="pods", unit="integer"): 110.0}
    for name, quantity in quantities.items():
        labels = {"node": node, "resource": _sanitized(name), "unit": "integer"}
        samples[series("kube_node_status_allocatable", **labels)] = float(quantity)
    return samples


def kube_pod(pod: PodAt) -> Scrape:
    """The phase and the requests of a pod, as kube-state-metrics exports them."""
    identity = {"namespace": "default", "pod": pod.name, "uid": f"uid-of-{pod.name}"}
    samples = {}
    for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
        samples[series("kube_pod_status_phase", **identity, phase=phase)] = float(phase == pod.phase)
    requested = {"resource": _sanitized(pod.resource), "unit": "integer", "node": pod.node, **identity}
    for container, quantity in pod.containers.items():
        samples[series("kube_pod_container_resource_requests", container=container, **requested)] = float(quantity)
    for container, quantity in {**pod.sidecars, **pod.init_containers}.items():
        samples[series("kube_pod_init_container_resource_requests", container=container, **requested)] = float(quantity)
        policy = {"restart_policy": "Always" if container in pod.sidecars else ""}
        samples[series("kube_pod_init_container_info", container=container, **policy, **identity)] = 1.0
    return samples


def _sanitized(resource: str) -> str:
    """The name as SanitizeLabelName in kube-state-metrics' internal/store/utils.go makes it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", resource)


def series(name: str, **labels: str) -> str:
    """A series as Prometheus writes it. The values of the labels must not need escaping."""
    pairs = (f'{key}="{labels[key]}"' for key in sorted(labels))
    return f"{name}{{{','.join(pairs)}}}"

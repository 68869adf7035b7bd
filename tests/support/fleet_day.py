"""Six hours of a made-up fleet, as Prometheus stores them: four nodes, a rollout, a few faults. All times are fixed."""

from __future__ import annotations

from dataclasses import replace

from tests.support.scrapes import (
    DONGLE,
    GPU,
    RESYNC,
    SEATS,
    NodeAt,
    PodAt,
    Scrape,
    kube_allocatable,
    kube_pod,
    openmetrics,
    scrape,
)

START = 1_768_464_000.0
"""Seconds since the epoch: 2026-01-15T08:00:00Z."""
MINUTES = 360
STEP = 60.0

NODES = ("node-1", "node-2", "node-3", "node-4")
ROLLOUT = (60, 70, 80, 90)
"""The minute at which each node gets the new configuration."""
MISSING = range(120, 300)
"""A dongle of node-2 is missing."""
TIMEOUT = range(180, 240)
"""The detector usb of node-3 does not end in time."""
OBSERVE_END = 75
"""Observe mode of node-4 ends."""
DENIED_FROM = 150
"""A policy denies a resource of node-4."""
STOPPED_FROM = 210
"""The service of node-4 is stopped."""


def samples() -> str:
    """All samples, one a minute, in OpenMetrics' text format."""
    return openmetrics((START + minute * STEP, _scrape(minute)) for minute in range(MINUTES + 1))


PODS = (
    PodAt("placed", "node-1", {"main": 2}),
    PodAt("with-a-sidecar", "node-2", {"main": 1}, sidecars={"proxy": 1}, init_containers={"migrate": 3}),
    PodAt("done", "node-3", {"main": 4}, phase="Succeeded"),
    PodAt("waiting", "", {"main": 4}, phase="Pending"),
    PodAt("seated", "node-1", {"one": 1, "two": 2}, resource=SEATS),
)
TOO_MANY = PodAt("too-many", "node-4", {"main": 5})
"""Bound to node-4 from DENIED_FROM on, by somebody who names the node in the pod."""


def _scrape(minute: int) -> Scrape:
    samples: dict[str, float] = {}
    for number, name in enumerate(NODES):
        node = node_at(number, minute)
        samples |= {**scrape(name, node), **kube_allocatable(name, node.published)}
    for pod in (*PODS, *([TOO_MANY] if minute >= DENIED_FROM else [])):
        samples |= kube_pod(pod)
    return samples


def node_at(number: int, minute: int) -> NodeAt:
    """A node at a minute. number: from 0."""
    if number == 3:
        minute = min(minute, STOPPED_FROM - 1)
    last = _last_pass(number, minute)
    seconds = 0.03 + 0.01 * ((last + 3 * number) % 4)
    node = NodeAt(
        last_reconcile=START + last * STEP,
        last_success=START + last * STEP + 0.5,
        hash="5d0c8e1f" if minute < ROLLOUT[number] else "c41b07aa",
        durations={DONGLE: seconds, SEATS: seconds / 5},
    )
    if number == 1 and minute in MISSING:
        quantities = {DONGLE: 3, SEATS: 10}
        return replace(node, readings=quantities, published=quantities, condition=("BelowExpected", "False"))
    if number == 2 and minute in TIMEOUT:
        durations = {**node.durations, DONGLE: 10.0}
        return replace(
            node, readings={DONGLE: "timeout", SEATS: 10}, durations=durations, condition=("Unknown", "False")
        )
    if number == 3 and minute < OBSERVE_END:
        return replace(node, observe=True, published={}, last_success=0.0)
    if number == 3 and minute >= DENIED_FROM:
        return replace(node, readings={**node.readings, GPU: 2}, denied=(GPU,), condition=("Denied", "False"))
    return node


def _last_pass(number: int, minute: int) -> int:
    """The minute of the last pass: once in a resync period, and whenever something changes."""
    resync, offset = int(RESYNC / STEP), 11 * number
    changes = {
        1: [MISSING.start, MISSING.stop],
        2: [TIMEOUT.start, TIMEOUT.stop],
        3: [OBSERVE_END, DENIED_FROM],
    }
    passes = [(minute - offset) // resync * resync + offset, ROLLOUT[number], *changes.get(number, [])]
    return max(at for at in passes if at <= minute)

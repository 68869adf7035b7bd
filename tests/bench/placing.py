"""When pods get what a machine has: after it has joined, and after a device was plugged in. Both as a watch sees it."""

from __future__ import annotations

import statistics

from tests.bench.measure import Figure
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.joining import join
from tests.cluster.kubelet import kubelet
from tests.cluster.placing import CONFIG, place_one_by_one
from tests.cluster.service import service

JOINS = 20
PLUGS = 50
MEDIAN, MOST = 1.5, 2.5
"""Seconds, on a machine with two processors that does nothing else."""


def figures() -> list[Figure]:
    """What both take; each pod must have been admitted by its kubelet."""
    with control_plane() as cluster:
        joined = [(joining := join(cluster)).allocatable - joining.node for _ in range(JOINS)]
        plugged = _plugged(cluster)
    return [
        *_of("Node created to allocatable", joined),
        *_of("plug to pod bound", plugged),
    ]


def _plugged(cluster: Cluster) -> list[float]:
    with kubelet(cluster, sync="10s") as node:
        node.start()
        with service(cluster, node=node.name, around=node.inside([])) as s:
            s.configure(CONFIG)
            s.start()
            return place_one_by_one(cluster, node, s, PLUGS)


def _of(what: str, taken: list[float]) -> list[Figure]:
    return [
        Figure(f"{what}, median of {len(taken)}", statistics.median(taken), "{:.2f} s", MEDIAN),
        Figure("  maximum", max(taken), "{:.2f} s", MOST),
    ]

"""Pods that a kubelet admits or refuses."""

from __future__ import annotations

import time

from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until


def run_pod(cluster: Cluster, node: str, resource: str, quantity: str = "1") -> str:
    """Creates a pod that requests this quantity, and waits until the pod runs. Returns its name.

    A kubelet may learn of a changed allocatable later than the scheduler, and then refuses the pod. In that case this
    function creates another pod, as a ReplicaSet does.
    """
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE:
        pod = cluster.create_pod(node, {resource: quantity})
        phase = wait_until(lambda name=pod: ended_or_runs(cluster, name), PATIENCE, f"{pod} runs")  # type: ignore[misc]
        if phase == "Running":
            return pod
        wait_until(lambda name=pod: out_of(cluster, name, resource), PATIENCE, f"{pod} is refused")  # type: ignore[misc]
    raise AssertionError(f"node {node} refuses {quantity} {resource}, which its Node has")


def ended_or_runs(cluster: Cluster, pod: str) -> str:
    """The pod's phase; empty while it is Pending."""
    phase = cluster.pod_phase(pod)
    return "" if phase == "Pending" else phase


def out_of(cluster: Cluster, pod: str, resource: str) -> bool:
    """Whether an Event reports that the kubelet had too little of the resource. It may come after the pod's phase."""
    return f"OutOf{resource}" in [event["reason"] for event in cluster.events_of(pod, "Pod")]

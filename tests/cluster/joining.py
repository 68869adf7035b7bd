"""A machine joins: from the moment at which its kubeconfig exists until the first pod runs on its devices."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.cluster.agent import DONGLE
from tests.cluster.audit import Request
from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import kubelet as kubelet_of
from tests.cluster.nodewatch import NodeWatch, watch_node
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import service
from tests.support.machines import usb_device


@dataclass(frozen=True, slots=True)
class Join:
    """When it happened, in seconds since the kubeconfig appeared."""

    node: float
    """The kubelet created the Node."""
    capacity: float
    condition: float
    """CapacityPublished became True."""
    allocatable: float
    bound: float
    """The pod that waits was bound to the Node."""
    running: float


def join(cluster: Cluster) -> Join:
    """The service waits for a kubeconfig, and a pod for the Node's devices. Then the machine joins."""
    with (
        kubelet_of(cluster, sync="10s") as kubelet,
        service(cluster, usb_device("1-1"), node=kubelet.name, around=kubelet.inside([])) as s,
    ):
        s.kubeconfig.unlink()
        s.start()
        pod = cluster.create_pod(kubelet.name, {DONGLE: "1"})
        wait_until(lambda: cluster.unschedulable(pod), PATIENCE, "the pod waits")
        mark = cluster.audit.mark()
        with watch_node(cluster, kubelet.name) as watch:
            began = time.time()
            s.join()
            kubelet.start(wait=False)
            wait_until(lambda: cluster.pod_phase(pod) == "Running", PATIENCE, "the pod runs")
        requests = [r for r in cluster.audit.since(mark) if r.name == pod]
    return Join(*(round(moment - began, 3) for moment in (*_of_node(watch), *_of_pod(requests))))


def _of_node(watch: NodeWatch) -> Iterator[float]:
    yield next(version.received for version in watch if version.type == "ADDED")
    yield next(version.received for version in watch if version.node["status"].get("capacity", {}).get(DONGLE) == "1")
    yield next(version.received for version in watch if version.condition.get("status") == "True")
    yield next(version.received for version in watch if version.allocatable.get(DONGLE) == "1")


def _of_pod(requests: list[Request]) -> Iterator[float]:
    yield next(r.answered for r in requests if r.subresource == "binding")
    yield next(r.answered for r in requests if r.subresource == "status" and '"Running"' in json.dumps(r.body))

"""capacityd fleet on 5,000 Nodes of a real API server, beside kubectl, which reads the same."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from capacityd.model.node import ANNOTATION, CONDITION, CONFIGURATION_ANNOTATION
from tests.bench.measure import Command, Figure, Run, capacityd, in_turn, ratio
from tests.cluster.controlplane import BASE_CAPACITY, Cluster, control_plane
from tests.cluster.credentials import ADMIN

NODES = 5_000
_ROUNDS = 5
_CREATORS = 4
_MIB = 1 << 20
_RESOURCES = {"example.com/dongle": 4, "example.com/nic-mbps": 10_000, "example.com/scratch-gib": 1_788}


def figures() -> Iterator[Figure]:
    """Time and memory of both, which run in turn on the same API server."""
    with control_plane() as cluster:
        heartbeat = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with ThreadPoolExecutor(_CREATORS) as pool:
            list(pool.map(partial(_create, cluster, heartbeat), range(NODES)))
        kubeconfig = cluster.kubeconfig(ADMIN)
        fleet = capacityd("fleet", "--kubeconfig", kubeconfig)
        kubectl: Command = [cluster.binaries["kubectl"], "--kubeconfig", kubeconfig, "get", "nodes", "-o", "json"]
        ours, theirs = in_turn([fleet, kubectl], _ROUNDS, {"HOME": str(cluster.folder)})
    seconds = ratio([run.seconds for run in ours], [run.seconds for run in theirs])
    yield Figure(f"fleet of {NODES} Nodes, time over that of kubectl get nodes -o json", seconds, "{:.2f}", 0.5)
    yield Figure("  fleet, peak memory", _peak(ours), "{:.1f} MiB", 120)
    yield Figure("  kubectl, peak memory", _peak(theirs), "{:.1f} MiB")
    for name, runs in (("fleet", ours), ("kubectl", theirs)):
        yield Figure(f"  {name}", statistics.median(run.seconds for run in runs), "{:.2f} s")
        yield Figure(f"  {name}, processor time", statistics.median(run.cpu for run in runs), "{:.2f} s")


def _peak(runs: list[Run]) -> float:
    return max(run.peak for run in runs) / _MIB


def _create(cluster: Cluster, heartbeat: str, number: int) -> None:
    """A Node of a usual size, which is healthy: most of it is the list of images."""
    images = [
        {
            "names": [f"registry.example/some/image-{i}@sha256:{i:064}", f"registry.example/some/image-{i}:v1.{i}.0"],
            "sizeBytes": 10**8,
        }
        for i in range(50)
    ]
    condition = {"status": "True", "lastHeartbeatTime": heartbeat, "lastTransitionTime": heartbeat}
    conditions = [
        {**condition, "type": kind, "reason": "Published", "message": "all configured resources are published"}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready", CONDITION)
    ]
    capacity = {name: str(quantity) for name, quantity in _RESOURCES.items()}
    cluster.create_node(
        f"f{number:04}",
        capacity=capacity,
        labels={"node.kubernetes.io/instance-type": f"m{number % 5}.large"},
        annotations={ANNOTATION: json.dumps(_RESOURCES), CONFIGURATION_ANNOTATION: "4f1c2a90"},
        status={"images": images, "conditions": conditions, "allocatable": {**BASE_CAPACITY, **capacity}},
    )

"""capacityd fleet on 5,000 Nodes with 50,000 pods of a real API server, beside kubectl, which reads the same."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from capacityd.model.node import ANNOTATION, CONDITION, CONFIGURATION_ANNOTATION
from tests.bench.measure import Command, Figure, Run, capacityd, in_turn, ratio
from tests.cluster.controlplane import BASE_CAPACITY, Cluster, control_plane
from tests.cluster.controlplane import PODS as CLUSTER_PODS
from tests.cluster.credentials import ADMIN

NODES = 5_000
PODS = 10
"""Of each Node."""
_ROUNDS = 3
_CREATORS = 4
_MIB = 1 << 20
_RESOURCES = {"example.com/dongle": 4, "example.com/nic-mbps": 10_000, "example.com/scratch-gib": 1_788}


def figures() -> Iterator[Figure]:
    """Time and memory of all, which run in turn on the same API server."""
    with control_plane() as cluster:
        heartbeat = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with ThreadPoolExecutor(_CREATORS) as pool:
            list(pool.map(partial(_create, cluster, heartbeat), range(NODES)))
            kubeconfig = cluster.kubeconfig(ADMIN)
            fleet = capacityd("fleet", "--kubeconfig", kubeconfig)
            kubectl: Command = [cluster.binaries["kubectl"], "--kubeconfig", kubeconfig, "get", "-o", "json"]
            environment = {"HOME": str(cluster.folder)}
            yield from _compared(f"{NODES} Nodes", fleet, [[*kubectl, "nodes"]], environment, (0.5, 120))
            list(pool.map(partial(_create_pods, cluster), range(NODES)))
        both: list[Command] = [[*kubectl, "nodes"], [*kubectl, "pods", "-A"]]
        yield from _compared(f"{NODES} Nodes, {NODES * PODS} pods", fleet, both, environment, (0.5, 120))


def _compared(
    what: str,
    fleet: Command,
    kubectl: Sequence[Command],
    environment: Mapping[str, str],
    limits: tuple[float, float],
) -> Iterator[Figure]:
    """limits: of the time over kubectl's, and of the memory in MiB."""
    ours, *theirs = in_turn([fleet, *kubectl], _ROUNDS, environment)
    sums = [sum(run.seconds for run in runs) for runs in zip(*theirs, strict=True)]
    seconds = ratio([run.seconds for run in ours], sums)
    yield Figure(f"fleet of {what}, time over that of kubectl get -o json", seconds, "{:.2f}", limits[0])
    yield Figure("  fleet, peak memory", _peak(ours), "{:.1f} MiB", limits[1])
    yield from _times("fleet", ours)
    for command, runs in zip(kubectl, theirs, strict=True):
        name = f"kubectl get {' '.join(map(str, command[6:]))}"
        yield Figure(f"  {name}, peak memory", _peak(runs), "{:.1f} MiB")
        yield from _times(name, runs)


def _times(name: str, runs: list[Run]) -> Iterator[Figure]:
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
        annotations={ANNOTATION: json.dumps(_RESOURCES), CONFIGURATION_ANNOTATION: "4f1c2a907b1e"},
        status={"images": images, "conditions": conditions, "allocatable": {**BASE_CAPACITY, **capacity}},
    )


def _create_pods(cluster: Cluster, number: int) -> None:
    """The pods of a Node, of a usual size; half of them request a resource, and together no more than there is."""
    for index in range(PODS):
        requests = {"cpu": "100m", "memory": "64Mi"}
        requests |= {"example.com/dongle": "1"} if index < 4 else {}
        requests |= {"example.com/nic-mbps": "2500"} if index % 4 == 0 else {}
        container = {
            "name": "main",
            "image": "registry.example/some/service@sha256:" + "0" * 64,
            "args": [f"--option-{option}=value-{option}" for option in range(8)],
            "env": [{"name": f"VARIABLE_{name}", "value": f"value of variable {name}"} for name in range(12)],
            "resources": {"requests": requests, "limits": requests},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}},
        }
        labels = {"app.kubernetes.io/name": f"service-{index}", "app.kubernetes.io/part-of": "a-product"}
        metadata = {"name": f"p{number:04}-{index}", "labels": labels}
        spec = {"nodeName": f"f{number:04}", "containers": [container], "automountServiceAccountToken": False}
        cluster.admin.create(CLUSTER_PODS, {"metadata": metadata, "spec": spec})

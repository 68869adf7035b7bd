"""capacityd fleet on 5,000 Nodes with 50,000 pods of a real API server, beside kubectl, which reads the same."""

from __future__ import annotations

import json
import statistics
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from capacityd.model.node import ANNOTATION, CONDITION, CONFIGURATION_ANNOTATION
from tests.bench.measure import Command, Figure, Run, capacityd, in_turn, ratio
from tests.cluster.api import ApiError
from tests.cluster.controlplane import BASE_CAPACITY, Cluster, control_plane
from tests.cluster.credentials import ADMIN
from tests.cluster.processes import PATIENCE, wait_until

NODES = 5_000
PODS = 10
"""Of each Node."""
_ROUNDS = 3
_BATCH = 100
"""Of operations in one of etcd's transactions, which has 128 at most."""
_MIB = 1 << 20
_RESOURCES = {"example.com/dongle": 4, "example.com/nic-mbps": 10_000, "example.com/scratch-gib": 1_788}


def figures() -> Iterator[Figure]:
    """Time and memory of all, which run in turn on the same API server."""
    with control_plane() as cluster:
        kubeconfig = cluster.kubeconfig(ADMIN)
        fleet = capacityd("fleet", "--kubeconfig", kubeconfig)
        kubectl: Command = [cluster.binaries["kubectl"], "--kubeconfig", kubeconfig, "get", "-o", "json"]
        environment = {"HOME": str(cluster.folder)}
        heartbeat = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        _store(cluster, "minions", (_node(heartbeat, number) for number in range(NODES)))
        _wait_for(cluster, "nodes", NODES)
        yield from _compared(f"{NODES} Nodes", fleet, [[*kubectl, "nodes"]], environment, (0.5, 120))
        _store(cluster, "pods/default", (pod for number in range(NODES) for pod in _pods(number)))
        _wait_for(cluster, "pods", NODES * PODS)
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


def _store(cluster: Cluster, kind: str, objects: Iterator[dict[str, Any]]) -> None:
    """Puts the objects into etcd: so many requests to the API server would take longer than all else."""
    puts = ({"requestPut": _put(kind, stored)} for stored in objects)
    while batch := list(islice(puts, _BATCH)):
        body = json.dumps({"success": batch}).encode()
        urllib.request.urlopen(f"http://127.0.0.1:{cluster.api_server.etcd}/v3/kv/txn", body, PATIENCE).close()


def _put(kind: str, stored: Mapping[str, Any]) -> dict[str, str]:
    key = f"/registry/{kind}/{stored['metadata']['name']}"
    return {"key": b64encode(key.encode()).decode(), "value": b64encode(json.dumps(stored).encode()).decode()}


def _wait_for(cluster: Cluster, resource: str, number: int) -> None:
    """Until the API server's cache has what was stored."""

    def listed() -> bool:
        try:
            page = cluster.admin.get(f"/api/v1/{resource}", limit="1")
        except ApiError:  # 504: the cache is behind
            return False
        return bool(page["metadata"].get("remainingItemCount") == number - 1)

    wait_until(listed, 5 * PATIENCE, f"the API server lists {number} {resource}")


def _metadata(name: str, **more: Any) -> dict[str, Any]:
    identity = {"uid": str(uuid5(NAMESPACE_DNS, name)), "creationTimestamp": "2026-01-15T08:00:00Z"}
    return {"name": name, **identity, **more}


def _node(heartbeat: str, number: int) -> dict[str, Any]:
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
    capacity = {**BASE_CAPACITY, **{name: str(quantity) for name, quantity in _RESOURCES.items()}}
    metadata = _metadata(
        f"f{number:04}",
        labels={"node.kubernetes.io/instance-type": f"m{number % 5}.large"},
        annotations={ANNOTATION: json.dumps(_RESOURCES), CONFIGURATION_ANNOTATION: "4f1c2a907b1e"},
    )
    status = {"images": images, "conditions": conditions, "capacity": capacity, "allocatable": capacity}
    return {"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": {}, "status": status}


def _pods(number: int) -> Iterator[dict[str, Any]]:
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
        metadata = _metadata(f"p{number:04}-{index}", namespace="default", labels=labels)
        spec = {"nodeName": f"f{number:04}", "containers": [container], "automountServiceAccountToken": False}
        yield {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}

"""Pods: how they are made, and whether they are placed, admitted or refused."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from tests.cluster.controlplane import BASE_CAPACITY, IMAGE, PODS, Cluster
from tests.cluster.processes import PATIENCE, wait_until


def run_pod(cluster: Cluster, node: str, resource: str, quantity: str = "1") -> str:
    """Creates a pod that requests this quantity, and waits until the pod runs. Returns its name.

    A kubelet may learn of a changed allocatable later than the scheduler, and then refuses the pod. In that case this
    function creates another pod, as a ReplicaSet does.
    """
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE:
        pod = cluster.create_pod(node, {resource: quantity})
        if not _is_refused(cluster, pod, resource):
            return pod
    raise AssertionError(f"node {node} refuses {quantity} {resource}, which its Node has")


def _is_refused(cluster: Cluster, pod: str, resource: str) -> bool:
    """Waits until the kubelet runs the pod (False), or refuses it for the lack of this resource (True)."""
    wait_until(lambda: cluster.pod_phase(pod) != "Pending", PATIENCE, f"{pod} is no longer pending")
    if cluster.pod_phase(pod) == "Running":
        return False
    return wait_until(lambda: out_of(cluster, pod, resource), PATIENCE, f"{pod} is refused")


def out_of(cluster: Cluster, pod: str, resource: str) -> bool:
    """Whether an Event reports that the kubelet had too little of the resource. The Event may come late."""
    return f"OutOf{resource}" in [event["reason"] for event in cluster.events_of(pod, "Pod")]


def container(limits: Mapping[str, object] = MappingProxyType({}), **more: object) -> dict[str, Any]:
    """A container, or a sidecar if `more` sets restartPolicy."""
    text = {name: str(number) for name, number in limits.items()}
    return {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "resources": {"limits": text}, **more}


def pod(
    containers: Sequence[dict[str, Any]],
    init: Sequence[dict[str, Any]] = (),
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] = MappingProxyType({}),
    name: str = "",
    **spec: object,
) -> dict[str, Any]:
    """A pod with these containers. annotations: None for a pod without the field."""
    metadata: dict[str, Any] = {"name": name} if name else {"generateName": "pod-"}
    metadata |= {"labels": dict(labels)} | ({} if annotations is None else {"annotations": dict(annotations)})
    return {
        "metadata": metadata,
        "spec": {
            "containers": [{"name": f"main-{number}", **each} for number, each in enumerate(containers)],
            "initContainers": [{"name": f"init-{number}", **each} for number, each in enumerate(init)],
            "automountServiceAccountToken": False,
            **spec,
        },
    }


def dry_run(cluster: Cluster, body: object, path: str = PODS) -> Any:
    """The pod as it would be created."""
    return cluster.admin.create(f"{path}?dryRun=All", body)


def annotations_of(created: Any) -> dict[str, str]:
    return dict(created["metadata"].get("annotations", {}))


# A merge by keys could lose one of two variables with the same name or of two ports with the same number.
UNUSUAL: dict[str, Any] = {
    "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
    "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}],
}


@contextmanager
def runtime_class(cluster: Cluster, overhead: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """A RuntimeClass with this overhead. Returns its name."""
    path, name = "/apis/node.k8s.io/v1/runtimeclasses", "with-overhead"
    cluster.admin.create(path, {"metadata": {"name": name}, "handler": "any", "overhead": {"podFixed": dict(overhead)}})
    try:
        yield name
    finally:
        cluster.admin.delete(f"{path}/{name}")


def binds_with(cluster: Cluster, body: dict[str, Any], resource: str, number: int, path: str = PODS) -> Any:
    """Checks that the scheduler counts this number for a pod. Returns the pod as it was created.

    The Node has 1 less at first, so the pod must wait. Then the Node gets the number, and the pod must be bound.
    """
    has = {**BASE_CAPACITY, resource: str(number - 1)}
    node = cluster.create_node(capacity=has, status={"allocatable": has})
    selected = {"nodeSelector": {"kubernetes.io/hostname": node}}
    created = cluster.admin.create(path, {**body, "spec": {**body["spec"], **selected}})
    place = f"{path}/{created['metadata']['name']}"

    def waits() -> bool:
        conditions = cluster.admin.get(place)["status"].get("conditions", [])
        return any(f"Insufficient {resource}" in condition.get("message", "") for condition in conditions)

    wait_until(waits, PATIENCE, "1 is missing")
    has[resource] = str(number)
    cluster.admin.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": has, "allocatable": has}})
    wait_until(lambda: cluster.admin.get(place)["spec"].get("nodeName") == node, PATIENCE, "the pod is bound")
    return created

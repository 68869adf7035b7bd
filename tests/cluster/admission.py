"""The API server changes what is written to the status of Nodes: mutating admission policies."""

from __future__ import annotations

from tests.cluster.api import ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until

_API = "/apis/admissionregistration.k8s.io/v1"
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}

FOLLOWS = {"tests.example/allocatable": "follows"}
"""The labels of a Node whose allocatable is its capacity at once, see follow_capacity()."""


def create_policy(cluster: Cluster, name: str, when: str, operations: str) -> None:
    """when: CEL, of the writes that it changes. operations: the JSONPatch operations that it adds to them, in CEL."""
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [_RULE]},
        "matchConditions": [{"name": "when", "expression": when}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": operations}}],
    }
    cluster.admin.create(f"{_API}/mutatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    binding = {"metadata": {"name": name}, "spec": {"policyName": name}}
    cluster.admin.create(f"{_API}/mutatingadmissionpolicybindings", binding)


def delete_policy(cluster: Cluster, name: str) -> None:
    cluster.admin.delete(f"{_API}/mutatingadmissionpolicybindings/{name}")


def removal_of(key: str, name: str) -> str:
    """The operations that remove an extended resource from "capacity" or "allocatable"."""
    return f'[JSONPatch{{op: "remove", path: "/status/{key}/" + jsonpatch.escapeKey("{name}")}}]'


def follow_capacity(cluster: Cluster, node: str) -> None:
    """Until each write of capacity to this Node, which has the labels FOLLOWS, is one of allocatable, too.

    It stands for a kubelet that copies it at once. Without one, the service would read the Node again after 15 s to
    compare them, which on a slow machine may be before or after any step of a test. Versions of Kubernetes without such
    policies have that request (see versions.MUTATING_POLICIES).
    """
    ((label, value),) = FOLLOWS.items()
    when = (
        f"object.metadata.?labels['{label}'].orValue('') == '{value}'"
        " && has(object.status.capacity) && has(object.status.allocatable)"
    )
    place = 'path: "/status/allocatable/" + jsonpatch.escapeKey(k)'
    gone = f'filter(k, !(k in object.status.capacity)).map(k, JSONPatch{{op: "remove", {place}}})'
    same = f'map(k, JSONPatch{{op: "add", {place}, value: string(object.status.capacity[k])}})'
    copy = f"object.status.allocatable.{gone} + object.status.capacity.{same}"
    try:
        create_policy(cluster, "allocatable-follows", when, copy)
    except ApiError as error:
        if error.status == 404:  # a version without the kind
            return
        if error.status != 409:  # there is one already
            raise

    def follows() -> bool:
        stored = try_to_write(cluster, node, {"capacity": {"example.com/tried": "1"}})
        return "example.com/tried" in stored.get("allocatable", {})

    wait_until(follows, PATIENCE, f"the allocatable of Node {node} follows")


def try_to_write(cluster: Cluster, node: str, status: dict[str, object]) -> dict[str, dict[str, str]]:
    """The status that the Node would have if this were written to it."""
    path = f"/api/v1/nodes/{node}/status?dryRun=All"
    found: dict[str, dict[str, str]] = cluster.admin.patch(path, {"status": status})["status"]
    return found

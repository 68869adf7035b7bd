"""The API server changes what is written to the status of Nodes: mutating admission policies."""

from __future__ import annotations

from tests.cluster.controlplane import Cluster

_API = "/apis/admissionregistration.k8s.io/v1"
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}


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


def try_to_write(cluster: Cluster, node: str, status: dict[str, object]) -> dict[str, dict[str, str]]:
    """The status that the Node would have if this were written to it."""
    path = f"/api/v1/nodes/{node}/status?dryRun=All"
    found: dict[str, dict[str, str]] = cluster.admin.patch(path, {"status": status})["status"]
    return found

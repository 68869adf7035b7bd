"""Admission policies that deny writes to the status of Nodes, and dry runs of such writes."""

from __future__ import annotations

from tests.cluster.api import Api, ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user, token_of

_API = "/apis/admissionregistration.k8s.io/v1"
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}


def try_to_write(cluster: Cluster, node: str, status: dict[str, object]) -> dict[str, dict[str, str]]:
    """The status that the Node would have after this write (a dry run)."""
    path = f"/api/v1/nodes/{node}/status?dryRun=All"
    stored: dict[str, dict[str, str]] = cluster.admin.patch(path, {"status": status})["status"]
    return stored


def create_denial(cluster: Cluster, name: str, node: str, key: str) -> None:
    """Denies ("not today") each write in which the Node's user changes a capacity key."""
    quantity = "has({0}.status.capacity) && '{1}' in {0}.status.capacity ? string({0}.status.capacity['{1}']) : ''"
    before, after = quantity.format("oldObject", key), quantity.format("object", key)
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_RULE]},
        "matchConditions": [
            {"name": "node", "expression": f"object.metadata.name == '{node}'"},
            {"name": "user", "expression": f"request.userInfo.username == '{node_user(node)}'"},
        ],
        "validations": [{"expression": f"({before}) == ({after})", "message": "not today", "reason": "Invalid"}],
    }
    cluster.admin.create(f"{_API}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    cluster.admin.create(f"{_API}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": binding})


def delete_denial(cluster: Cluster, name: str) -> None:
    cluster.admin.delete(f"{_API}/validatingadmissionpolicybindings/{name}")
    cluster.admin.delete(f"{_API}/validatingadmissionpolicies/{name}")


def is_denied(cluster: Cluster, node: str, key: str) -> bool:
    """Whether the API server denies the Node's own user a change of this key (a dry run)."""
    user = Api(cluster.url, cluster.ca_file, token_of(node_user(node)))
    try:
        user.patch(f"/api/v1/nodes/{node}/status?dryRun=All", {"status": {"capacity": {key: "99"}}})
    except ApiError:
        return True
    return False

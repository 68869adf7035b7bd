"""capacityd's own identity on the test cluster, and requests with this identity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from tests.cluster.api import PATCHES, Api, ApiError
from tests.cluster.controlplane import Cluster

MACHINE_ID = Path("/etc/machine-id").read_text().strip()
FOREIGN = "other.example/card"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}

Kind = Literal["certificate", "account"]

_NODE_INFO = (
    *("architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion"),
    *("operatingSystem", "osImage", "systemUUID"),
)


def create_node(cluster: Cluster, name: str | None = None) -> str:
    """A Node of this machine, with keys, labels and conditions of others."""
    return cluster.create_node(
        name,
        capacity={FOREIGN: "2", "example.community/card": "1"},
        annotations={"other.example/note": "1"},
        labels={"zone": "a"},
        status={
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [READY],
            "addresses": [{"type": "Hostname", "address": "here"}],
            "nodeInfo": {**dict.fromkeys(_NODE_INFO, ""), "machineID": MACHINE_ID},
        },
    )


def identity(cluster: Cluster, node: str, kind: Kind, path: Path) -> Path:
    """The kubeconfig of capacityd's own identity for this Node."""
    if kind == "certificate":
        return cluster.kubeconfig(f"capacityd:{node}", path, credentials="certificate", groups=["capacityd:nodes"])
    return cluster.kubeconfig("account", path, token=account_token(cluster, node))


def account_token(cluster: Cluster, node: str = "") -> str:
    """A token of the shipped ServiceAccount. node: the Node that it is bound to."""
    spec: dict[str, Any] = {"expirationSeconds": 600}
    if node:
        uid = cluster.node(node)["metadata"]["uid"]
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    path = "/api/v1/namespaces/capacityd/serviceaccounts/capacityd/token"
    return str(cluster.admin.create(path, {"spec": spec})["status"]["token"])


def request(cluster: Cluster, kubeconfig: Path, method: str, path: str, body: object = None, kind: str = "") -> str:
    """Makes a request. Returns why the API server rejects it, or "". kind: of the patch, such as json."""
    user = json.loads(kubeconfig.read_text())["users"][0]["user"]
    api = Api(cluster.url, cluster.ca_file, user.get("token"), user.get("client-certificate"))
    try:
        api.request(method, path, body, PATCHES.get(kind, "application/json"))
    except ApiError as refused:
        return str(refused.body["message"])
    return ""


def write(cluster: Cluster, kubeconfig: Path, node: str, patch: list[dict[str, Any]]) -> str:
    """Writes a JSON patch to the status of the Node. Returns why the API server rejects it, or ""."""
    return request(cluster, kubeconfig, "PATCH", f"/api/v1/nodes/{node}/status", patch, "json")


def event(cluster: Cluster, kubeconfig: Path, node: str) -> str:
    """Creates an Event about the Node. Returns why the API server rejects it, or ""."""
    about = {
        "metadata": {"generateName": "e-", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": node},
        "source": {"component": "capacityd"},
        "reason": "CapacityChanged",
    }
    return request(cluster, kubeconfig, "POST", "/api/v1/namespaces/default/events", about)

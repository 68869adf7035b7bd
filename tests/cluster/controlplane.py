"""A real control plane (etcd, kube-apiserver and kube-scheduler on loopback), and what the tests do with it.

It has no controller manager on purpose, so only the kubelet stops pods. Admission plugins that depend on a controller
are off, so no Node is tainted, and no pod needs a ServiceAccount.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.api import Api
from tests.cluster.apiserver import ApiServer
from tests.cluster.audit import Audit
from tests.cluster.binaries import programs
from tests.cluster.credentials import ADMIN, NODES, Authority, Credentials, exec_plugin, groups_of, kubeconfig, token_of
from tests.cluster.processes import PATIENCE, Daemon, free_port, wait_until, workspace

IMAGE = "test.example/pause:1"
BASE_CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "110"}
PODS = "/api/v1/namespaces/default/pods"


class Cluster:
    """A running control plane. Tests share it, so each uses a Node with its own name."""

    def __init__(self, url: str, folder: Path, binaries: Mapping[str, Path], authority: Authority) -> None:
        self.url = url
        self.folder = folder
        self.binaries = binaries
        self.authority = authority
        self.ca_file = authority.ca_file
        self.admin = Api(url, authority.ca_file, token_of(ADMIN))
        self.audit = Audit(folder / "audit.log", self.admin)
        self.api_server: ApiServer
        self._nodes = iter(NODES)
        self._numbers = itertools.count(1)
        self.admin_kubeconfig = self.kubeconfig(ADMIN)

    def node_name(self) -> str:
        """The name of a Node that no other test uses and that has a token."""
        if name := next(self._nodes, None):
            return name
        raise RuntimeError("the tests use more nodes than credentials.NODES has names")

    def kubeconfig(
        self,
        user: str,
        path: Path | None = None,
        *,
        credentials: Credentials = "token",
        token: str | None = None,
        groups: Sequence[str] | None = None,
        server: str | None = None,
    ) -> Path:
        """A kubeconfig for "admin", "system:node:NAME" or, by certificate, for any user in any groups.

        The API server accepts only the tokens of the admin and of credentials.NODES. Each call makes a new certificate
        (*.pem) or a new exec plugin (*.sh) beside the kubeconfig.
        """
        path = path or self.folder / f"kubeconfig-{next(self._numbers)}"
        token = token or token_of(user)
        if credentials == "token":
            entry: dict[str, Any] = {"token": token}
        elif credentials == "exec":
            entry = exec_plugin(path.with_name(f"{path.name}.sh"), token)
        else:
            pem = path.with_name(f"{path.name}.pem")
            self.authority.client(user, groups_of(user) if groups is None else groups, pem)
            entry = {"client-certificate": str(pem), "client-key": str(pem)}
        path.touch(0o600)
        path.write_text(kubeconfig(server or self.url, self.ca_file, entry))
        return path

    def grant(self, user: str, verb: str, *resources: str) -> None:
        """Gives the user this right in the whole cluster, and waits until the right is in effect.

        resources: of the core group, such as nodes/status.
        """
        metadata = {"name": f"{user}-{verb}-{next(self._numbers)}"}
        role = {"rules": [{"apiGroups": [""], "verbs": [verb], "resources": resources}]}
        binding = {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **metadata},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        self.admin.create(f"{rbac}/clusterroles", {"metadata": metadata, **role})
        self.admin.create(f"{rbac}/clusterrolebindings", {"metadata": metadata, **binding})
        resource, _, subresource = resources[-1].partition("/")
        access = {"verb": verb, "resource": resource, "subresource": subresource}

        def granted() -> bool:
            review = {"spec": {"user": user, "resourceAttributes": access}}
            answer = self.admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
            return bool(answer["status"]["allowed"])

        wait_until(granted, PATIENCE, f"{user} may {verb} {resources[-1]}")

    def create_node(
        self,
        name: str | None = None,
        *,
        capacity: Mapping[str, str] | None = BASE_CAPACITY,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        status: Mapping[str, Any] | None = None,
    ) -> str:
        """Creates a Node without a kubelet. Returns its name. capacity: besides BASE_CAPACITY (None: none at all)."""
        name = name or self.node_name()
        metadata: dict[str, Any] = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
        if annotations is not None:
            metadata["annotations"] = annotations
        # Unlike other objects, a Node can be created with its status: kubelets register this way.
        filled = {} if capacity is None else {"capacity": {**BASE_CAPACITY, **capacity}}
        self.admin.create("/api/v1/nodes", {"metadata": metadata, "status": {**filled, **(status or {})}})
        return name

    def node(self, name: str) -> Any:
        return self.admin.get(f"/api/v1/nodes/{name}")

    def capacity(self, name: str) -> dict[str, str]:
        return dict(self.node(name)["status"].get("capacity", {}))

    def allocatable(self, name: str) -> dict[str, str]:
        return dict(self.node(name)["status"].get("allocatable", {}))

    def set_capacity(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Changes the capacity, as another writer. None removes a key."""
        self.admin.patch(f"/api/v1/nodes/{name}/status", {"status": {"capacity": dict(changes)}})

    def create_pod(self, node: str, requests: Mapping[str, str] | None = None, name: str | None = None) -> str:
        """Creates a pod with these requests that may run only on this Node. Returns its name."""
        container = {
            "name": "main",
            "image": IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "resources": {"requests": requests or {}, "limits": requests or {}},
        }
        spec = {
            "containers": [container],
            "nodeSelector": {"kubernetes.io/hostname": node},
            "hostNetwork": True,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
        }
        name = name or f"pod-{next(self._numbers)}"
        self.admin.create(PODS, {"metadata": {"name": name}, "spec": spec})
        return name

    def pod(self, name: str) -> Any:
        return self.admin.get(f"{PODS}/{name}")

    def pod_phase(self, name: str) -> str:
        return str(self.pod(name)["status"]["phase"])

    def unschedulable(self, name: str) -> str:
        """The scheduler's message about why it could not place the pod, or ""."""
        for condition in self.pod(name)["status"].get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition["message"])
        return ""

    def events_of(self, name: str, kind: str = "Node") -> list[Any]:
        """The Events about this object in any namespace, oldest first."""
        selector = f"involvedObject.kind={kind},involvedObject.name={name}"
        events: list[Any] = self.admin.get("/api/v1/events", fieldSelector=selector)["items"]
        return sorted(events, key=lambda event: int(event["metadata"]["resourceVersion"]))


@contextmanager
def control_plane(binaries: Mapping[str, Path] | None = None) -> Iterator[Cluster]:
    """A control plane that is ready. It stops when the context ends.

    binaries: the programs of one version (releases.py). Default: those of the pinned version.
    """
    binaries = binaries or programs()
    with ExitStack() as stack:
        folder = stack.enter_context(workspace())
        authority = Authority.create(folder / "authority")
        cluster = Cluster(f"https://127.0.0.1:{free_port()}", folder, binaries, authority)
        etcd_port = free_port()
        etcd = stack.enter_context(_etcd(cluster, etcd_port))
        etcd.wait_for(lambda: _listening(etcd_port), PATIENCE, "etcd listens")
        program = binaries["kube-apiserver"]
        cluster.api_server = ApiServer(program, folder, authority, etcd_port, cluster.admin)
        stack.callback(cluster.api_server.kill)
        cluster.api_server.start()
        cluster.api_server.wait_ready()
        stack.enter_context(_scheduler(cluster))
        yield cluster


def _etcd(cluster: Cluster, port: int) -> Daemon:
    client, peer = (f"http://127.0.0.1:{number}" for number in (port, free_port()))
    # No fsync: nobody needs the data after a power cut.
    return Daemon(
        [
            cluster.binaries["etcd"],
            f"--data-dir={cluster.folder}/etcd",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ],
        cluster.folder / "etcd.log",
    )


def _listening(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def _scheduler(cluster: Cluster) -> Daemon:
    options = [f"--kubeconfig={cluster.admin_kubeconfig}", "--leader-elect=false", "--secure-port=0"]
    return Daemon([cluster.binaries["kube-scheduler"], *options], cluster.folder / "kube-scheduler.log")

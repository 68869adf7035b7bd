"""The control plane is a real one, and what the fixtures say of it holds."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest

from tests import ROOT
from tests.cluster.api import Api, ApiError
from tests.cluster.controlplane import BASE_CAPACITY, Cluster
from tests.cluster.credentials import ADMIN, Credentials, node_user, token_of
from tests.cluster.kubectl import kubectl
from tests.cluster.processes import PATIENCE, Daemon, starvation, wait_until

DONGLE = "example.com/dongle"


@pytest.mark.parametrize("credentials", get_args(Credentials))
def test_a_node_writes_its_own_node_only(cluster: Cluster, credentials: Credentials) -> None:
    own, other = cluster.create_node(), cluster.create_node()
    kubeconfig = cluster.kubeconfig(node_user(own), credentials=credentials)
    answers = []
    for name in (own, other):
        node = cluster.node(name)
        node["status"]["capacity"][DONGLE] = "3"
        # kubectl patch would read the status subresource first, which nodes may not.
        write = ["replace", "--raw", f"/api/v1/nodes/{name}/status", "-f", "-"]
        answers.append(kubectl(cluster, kubeconfig, *write, body=node))
    assert answers[0].returncode == 0, answers[0].stderr
    assert cluster.capacity(own) == {**BASE_CAPACITY, DONGLE: "3"}
    assert f'node "{own}" is not allowed to modify node "{other}"' in answers[1].stderr
    assert cluster.capacity(other) == BASE_CAPACITY


def test_a_wrong_token_is_refused(cluster: Cluster) -> None:
    kubeconfig = cluster.kubeconfig(ADMIN, token="wrong")
    refused = kubectl(cluster, kubeconfig, "get", "nodes").stderr
    # Which of the two kubectl prints depends on whether it knows the server's resources from an earlier run.
    assert "provide credentials" in refused or "Unauthorized" in refused


def test_anybody_by_certificate(cluster: Cluster, tmp_path: Path) -> None:
    kubeconfig = cluster.kubeconfig("agent", tmp_path / "agent.conf", credentials="certificate", groups=["agents"])
    review = kubectl(cluster, kubeconfig, "auth", "whoami", "-o", "json")
    assert json.loads(review.stdout)["status"]["userInfo"]["username"] == "agent"
    assert "agents" in json.loads(review.stdout)["status"]["userInfo"]["groups"]
    assert "Forbidden" in kubectl(cluster, kubeconfig, "get", "nodes").stderr
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_create_node(cluster: Cluster) -> None:
    name = cluster.create_node(
        capacity={DONGLE: "2"}, annotations={"a": "1"}, labels={"b": "2"}, status={"nodeInfo": {"machineID": "m"}}
    )
    node = cluster.node(name)
    assert cluster.capacity(name) == cluster.allocatable(name) == {**BASE_CAPACITY, DONGLE: "2"}
    assert node["metadata"]["annotations"] == {"a": "1"}
    assert node["metadata"]["labels"] == {"b": "2", "kubernetes.io/hostname": name}
    assert node["status"]["nodeInfo"]["machineID"] == "m"


def test_create_a_bare_node(cluster: Cluster) -> None:
    node = cluster.node(cluster.create_node(capacity=None))
    assert "capacity" not in node["status"]
    assert "annotations" not in node["metadata"]


def test_the_admin_patches_in_each_way(cluster: Cluster, node: str) -> None:
    path = f"/api/v1/nodes/{node}/status"
    cluster.admin.patch(path, [{"op": "add", "path": "/status/capacity/example.com~1dongle", "value": "1"}], "json")
    assert cluster.capacity(node)[DONGLE] == "1"
    cluster.set_capacity(node, {DONGLE: None, "example.com/card": "2"})
    assert cluster.capacity(node) == {**BASE_CAPACITY, "example.com/card": "2"}
    for condition in ("A", "B"):
        status = {"conditions": [{"type": condition, "status": "True"}]}
        cluster.admin.patch(path, {"status": status}, "strategic")
    # Only a strategic merge knows that conditions are a list keyed by type.
    assert {condition["type"] for condition in cluster.node(node)["status"]["conditions"]} == {"A", "B"}
    with pytest.raises(ApiError) as refused:
        cluster.set_capacity(node, {DONGLE: "-1"})
    assert refused.value.status == 422
    assert refused.value.body["details"]["causes"]


def test_the_scheduler_places_by_capacity(cluster: Cluster) -> None:
    node = cluster.create_node(capacity={DONGLE: "1"})
    first = cluster.create_pod(node, {DONGLE: "1"})
    wait_until(lambda: cluster.pod(first)["spec"].get("nodeName") == node, PATIENCE, "the first pod is placed")
    second = cluster.create_pod(node, {DONGLE: "1"})
    message = wait_until(lambda: cluster.unschedulable(second), PATIENCE, "the second pod is turned away")
    assert f"Insufficient {DONGLE}" in message
    assert cluster.pod_phase(second) == "Pending"
    assert cluster.unschedulable(first) == ""


def test_events_of_a_node(cluster: Cluster, node: str) -> None:
    other = cluster.create_node()
    for about, reason in [(node, "First"), (other, "Else"), (node, "Second")]:
        event = {
            "metadata": {"generateName": "e-"},
            "involvedObject": {"kind": "Node", "name": about},
            "reason": reason,
        }
        cluster.admin.create("/api/v1/namespaces/default/events", event)
    assert [event["reason"] for event in cluster.events_of(node)] == ["First", "Second"]


def test_audit_sees_every_request_once(cluster: Cluster, node: str) -> None:
    api = Api(cluster.url, cluster.ca_file, token_of(node_user(node)))
    api.get(f"/api/v1/nodes/{node}")
    with cluster.audit.requests(node_user(node)) as seen, cluster.audit.requests(user_agent="agent/1") as by_agent:
        for value in ("1", "2"):
            api.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": {DONGLE: value}}})
        with pytest.raises(ApiError):
            api.request("DELETE", f"/api/v1/nodes/{node}", headers={"User-Agent": "agent/1.0"})
        cluster.admin.get(f"/api/v1/nodes/{node}")
    assert [(r.verb, r.resource, r.subresource, r.name, r.code, r.body) for r in seen.all()] == [
        ("patch", "nodes", "status", node, 200, {"status": {"capacity": {DONGLE: "1"}}}),
        ("patch", "nodes", "status", node, 200, {"status": {"capacity": {DONGLE: "2"}}}),
        ("delete", "nodes", "", node, 403, None),
    ]
    assert [(r.verb, r.user) for r in by_agent.all()] == [("delete", node_user(node))]
    with cluster.audit.requests(node_user(node)) as later:
        pass
    assert later.all() == [], "what was before the mark is not seen"


def test_a_daemon_that_ends_is_reported_with_its_words(tmp_path: Path) -> None:
    daemon = Daemon(["sh", "-c", "echo no >&2; exit 3"], tmp_path / "sh.log")
    with pytest.raises(RuntimeError, match=r"ended with 3:\nno"):
        daemon.wait_for_line("yes", PATIENCE)


def test_wait_until_says_what_did_not_happen() -> None:
    with pytest.raises(TimeoutError, match=r"not within 0.1 s: the moon is green; last seen: 'grey'"):
        wait_until(lambda: "" or _falsy("grey"), 0.1, "the moon is green")


@pytest.mark.parametrize(("busy", "least"), [(False, 0.1), (True, 0.5)])
def test_a_deadline_is_longer_on_a_machine_that_is_busy(
    monkeypatch: pytest.MonkeyPatch, busy: bool, least: float
) -> None:
    monkeypatch.setattr("tests.cluster.processes.starvation", time.monotonic if busy else lambda: 0.0)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        wait_until(lambda: False, 0.1, "never")
    assert time.monotonic() - began >= least
    assert starvation() >= 0.0


class _falsy(str):  # noqa: N801
    def __bool__(self) -> bool:
        return False


WHOLE = """
import sys
from tests.cluster.controlplane import control_plane
from tests.cluster.kubelet import kubelet
with control_plane() as cluster, kubelet(cluster) as node:
    node.start()
    with node.device_plugin("example.com/card", 1):
        node.popen(["sleep", "infinity"])
        print(cluster.folder, flush=True)
        sys.stdin.read()
"""


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
def test_nothing_is_left(killed: bool) -> None:
    command = [sys.executable, "-c", WHOLE]
    run = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with run:
        assert run.stdin is not None
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        # With the time of its start: a machine that is busy gives a process id to another within a minute.
        started = {(pid, start_time(pid), name_of(pid)) for pid in descendants(run.pid)}
        names = {name for _, _, name in started}
        assert {"etcd", "kube-apiserver", "kube-scheduler", "kubelet", "fakeruntime", "deviceplugin", "sleep"} <= names
        assert folder.is_dir()
        if killed:
            run.send_signal(signal.SIGKILL)
        else:
            run.stdin.close()
    assert run.returncode == (-signal.SIGKILL if killed else 0)
    wait_until(
        lambda: not [name for pid, start, name in started if start_time(pid) == start],
        PATIENCE,
        f"the end of {started}",
    )
    wait_until(lambda: not folder.exists(), PATIENCE, "its folder is gone")


def descendants(pid: int) -> list[int]:
    children = [int(child) for child in _read(pid, f"task/{pid}/children").split()]
    return children + [further for child in children for further in descendants(child)]


def name_of(pid: int) -> str:
    return _read(pid, "comm").strip()


def _read(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended


def start_time(pid: int) -> str:
    """In clock ticks after boot; "" if there is no such process, or a zombie that waits for init. Source: proc(5)."""
    # The state follows the name, which can hold anything.
    state, *fields = _read(pid, "stat").rpartition(")")[2].split() or ["Z"]
    return "" if state == "Z" else fields[18]

"""The watcher on the real API server, with the real worker that reads the credentials."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from capacityd.model.messages import NodeSeen, NotWatched
from capacityd.node.watch import Limits
from tests import ROOT
from tests.cluster.agent import CLIENT, DONGLE, DONGLES, capacityd
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user
from tests.cluster.identity import Kind, create_node, identity
from tests.cluster.kubectl import kubectl
from tests.cluster.versions import BOUND_TOKENS
from tests.support.watching import Watching, watching

pytestmark = pytest.mark.protocol


def service_watcher(
    folder: Path, kubeconfig: Path, *options: str, limits: Limits | None = None
) -> AbstractContextManager[Watching]:
    """The watcher of a machine with this kubeconfig, as the service starts it."""
    run = folder / "run"
    run.mkdir(parents=True, exist_ok=True)
    config = folder / "capacityd.toml"
    config.write_text(DONGLES)
    command = [*capacityd(CLIENT), "--config", config, "--kubeconfig", kubeconfig, *options, "worker", run, "target"]
    return watching(run, command, limits, {"STATE_DIRECTORY": str(folder / "kept")}, CLIENT)


@pytest.mark.short
def test_the_kubelets_credentials_watch_the_own_node(cluster: Cluster, tmp_path: Path) -> None:
    """Every change is saved; one that concerns no plan is not reported."""
    name = cluster.node_name()
    with service_watcher(tmp_path, cluster.kubeconfig(node_user(name))) as watcher:
        assert watcher.wait_seen(1) == NodeSeen(""), "the Node does not exist"
        assert watcher.node is not None
        assert watcher.node.state is None
        cluster.create_node(name)
        created = watcher.wait_seen(2)
        cluster.set_capacity(name, {DONGLE: "2"})
        changed = watcher.wait_seen(3)
        cluster.set_capacity(name, {"other.example/card": "2"})
        version = cluster.node(name)["metadata"]["resourceVersion"]
        watcher.wait(lambda: watcher.resource_version == version, "the other writer's change is saved")
        cluster.admin.delete(f"/api/v1/nodes/{name}")
        assert watcher.wait_seen(4) == NodeSeen("")
        cluster.create_node(name)
        anew = watcher.wait_seen(5)
    assert len({created, changed, anew, NodeSeen("")}) == 4
    assert len(watcher.messages) == 5


@pytest.fixture(scope="module")
def shipped(cluster: Cluster) -> None:
    """The shipped role is in force."""
    manifest = ROOT / "packaging/kubernetes/identity.yaml"
    applied = kubectl(cluster, cluster.kubeconfig("admin"), "apply", "-f", manifest)
    assert applied.returncode == 0, applied.stderr


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("kind", ["certificate", pytest.param("account", marks=pytest.mark.since(BOUND_TOKENS))])
def test_the_own_identity_watches_this_machines_node_only(cluster: Cluster, kind: Kind, tmp_path: Path) -> None:
    name = create_node(cluster)
    other = cluster.create_node()
    own = identity(cluster, name, kind, tmp_path / "kubeconfig")
    with service_watcher(tmp_path, own, "--node-name", name) as watcher:
        watcher.wait_seen()
        assert watcher.node is not None
        assert watcher.node.names == {DONGLE}
    if kind == "certificate":  # a bound token contains the Node's name
        with service_watcher(tmp_path, own, "--node-name", other) as watcher:
            assert "belongs to another machine: its machineID is not set" in watcher.wait_not_watched()
            assert watcher.wait_ended() == 0


def test_a_role_without_the_verb_is_named(cluster: Cluster, tmp_path: Path) -> None:
    name = create_node(cluster)
    user = f"reader-of-{name}"
    cluster.grant(user, "get", "nodes")
    kubeconfig = cluster.kubeconfig(user, tmp_path / "kubeconfig", credentials="certificate")
    with service_watcher(tmp_path, kubeconfig, "--node-name", name) as watcher:
        assert 'it needs a role with the verb "watch" on "nodes"' in watcher.wait_not_watched()
        assert watcher.wait_ended() == 0
    cluster.grant(user, "watch", "nodes")
    with service_watcher(tmp_path, kubeconfig, "--node-name", name) as watcher:
        watcher.wait_seen()


@pytest.mark.parametrize("kind", ["kubelet", "certificate"])
@pytest.mark.usefixtures("shipped")
def test_a_killed_api_server(cluster: Cluster, kind: str, tmp_path: Path) -> None:
    """The Node is watched again, and a change in the meantime is reported."""
    name = create_node(cluster)
    path = tmp_path / "kubeconfig"
    own = identity(cluster, name, "certificate", path) if kind == "certificate" else cluster.kubeconfig(node_user(name))
    with service_watcher(tmp_path, own, "--node-name", name) as watcher:
        first = watcher.wait_seen()
        cluster.api_server.stop(signal.SIGKILL)
        watcher.wait(lambda: "refused the connection" in str(watcher.messages[-1]), "not watched")
        assert watcher.node is None
        cluster.api_server.start()
        cluster.api_server.wait_ready()
        watcher.wait(lambda: isinstance(watcher.messages[-1], NodeSeen), "it is seen again")
        assert watcher.messages[-1] == first
        cluster.set_capacity(name, {DONGLE: "2"})
        count = len(watcher.messages) + 1
        assert watcher.wait_seen(count) != first


def test_a_stopped_api_server(cluster: Cluster, tmp_path: Path) -> None:
    """A server that hangs keeps its connections. After the idle limit, the Node does not count as watched."""
    name = create_node(cluster)
    limits = Limits(connect=1, header=1, first_event=1, idle=3)
    with service_watcher(tmp_path, cluster.kubeconfig(node_user(name)), limits=limits) as watcher:
        watcher.wait_seen()
        os.kill(cluster.api_server.pid, signal.SIGSTOP)
        try:
            watcher.wait(lambda: isinstance(watcher.messages[-1], NotWatched), "not watched")
            assert watcher.node is None
        finally:
            os.kill(cluster.api_server.pid, signal.SIGCONT)
        watcher.wait(lambda: isinstance(watcher.messages[-1], NodeSeen), "it is seen again")

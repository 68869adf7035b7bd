"""The watcher on the real API server, with the real worker that reads the credentials."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from capacityd.model.codec import encode
from capacityd.model.messages import JobRequest, NodeSeen, NotWatched
from capacityd.model.options import Selection
from capacityd.model.reasons import Job
from capacityd.node.watch import Limits
from tests import ROOT
from tests.cluster import faults
from tests.cluster.agent import CLIENT, DONGLE, DONGLES
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import kubeconfig, node_user
from tests.cluster.dated_certificates import short_lived_client
from tests.cluster.identity import Kind, create_node, identity
from tests.cluster.kubectl import kubectl
from tests.cluster.proxy import Proxy
from tests.cluster.versions import BOUND_TOKENS
from tests.support.watching import Watching, watching
from tests.support.workers import RUN, worker_arguments

pytestmark = pytest.mark.protocol


def service_watcher(
    folder: Path, kubeconfig: Path, *, node_name: str | None = None, limits: Limits | None = None
) -> AbstractContextManager[Watching]:
    """The watcher of a machine with this kubeconfig, as the service starts it."""
    run = folder / "run"
    run.mkdir(parents=True, exist_ok=True)
    config = folder / "capacityd.toml"
    config.write_text(DONGLES)
    arguments = worker_arguments(run, Selection(str(config), kubeconfig=str(kubeconfig), node_name=node_name))
    command = [str(CLIENT), "-I", "-c", RUN, *arguments, json.dumps(encode(JobRequest(Job.TARGET)))]
    return watching(run, command, limits, {"STATE_DIRECTORY": str(folder / "kept")}, CLIENT)


WATCH = "/api/v1/nodes"
"""The path of a watch, and of no other request of a watcher."""

BRIEF = Limits(connect=5, header=2, first_event=2, idle=3)


def proxied(cluster: Cluster, proxy: Proxy, node: str, folder: Path) -> Path:
    """A kubeconfig with which a watcher reaches the API server through the proxy."""
    return cluster.kubeconfig(node_user(node), folder / "kubeconfig", server=proxy.url)


def wait_changed(watcher: Watching, *before: NodeSeen) -> NodeSeen:
    """Waits until the Node is seen, in another version than before."""
    watcher.wait(lambda: isinstance(last := watcher.messages[-1], NodeSeen) and last not in before, "it has changed")
    return watcher.wait_seen(len(watcher.messages))


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
    with service_watcher(tmp_path, own, node_name=name) as watcher:
        watcher.wait_seen()
        assert watcher.node is not None
        assert watcher.node.names == {DONGLE}
    if kind == "certificate":  # a bound token contains the Node's name
        with service_watcher(tmp_path, own, node_name=other) as watcher:
            assert "belongs to another machine: its machineID is not set" in watcher.wait_not_watched()
            assert watcher.wait_ended() == 0


def test_a_role_without_the_verb_is_named(cluster: Cluster, tmp_path: Path) -> None:
    name = create_node(cluster)
    user = f"reader-of-{name}"
    cluster.grant(user, "get", "nodes")
    kubeconfig = cluster.kubeconfig(user, tmp_path / "kubeconfig", credentials="certificate")
    with service_watcher(tmp_path, kubeconfig, node_name=name) as watcher:
        assert 'it needs a role with the verb "watch" on "nodes"' in watcher.wait_not_watched()
        assert watcher.wait_ended() == 0
    cluster.grant(user, "watch", "nodes")
    with service_watcher(tmp_path, kubeconfig, node_name=name) as watcher:
        watcher.wait_seen()


@pytest.mark.parametrize("kind", ["kubelet", "certificate"])
@pytest.mark.usefixtures("shipped")
def test_a_killed_api_server(cluster: Cluster, kind: str, tmp_path: Path) -> None:
    """The Node is watched again, and a change in the meantime is reported."""
    name = create_node(cluster)
    path = tmp_path / "kubeconfig"
    own = identity(cluster, name, "certificate", path) if kind == "certificate" else cluster.kubeconfig(node_user(name))
    with service_watcher(tmp_path, own, node_name=name) as watcher:
        first = watcher.wait_seen()
        cluster.api_server.stop(signal.SIGKILL)
        watcher.wait(lambda: "refused the connection" in str(watcher.messages[-1]), "not watched")
        assert watcher.node is None
        cluster.api_server.start()
        cluster.api_server.wait_ready()
        watcher.wait(lambda: isinstance(watcher.messages[-1], NodeSeen), "it is seen again")
        assert watcher.messages[-1] == first
        cluster.set_capacity(name, {DONGLE: "2"})
        wait_changed(watcher, first)


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


def test_a_proxy_cuts_the_watch(cluster: Cluster, proxy: Proxy, tmp_path: Path) -> None:
    """The next connection follows, and reports what has changed in between."""
    name = create_node(cluster)
    first, second = threading.Event(), threading.Event()
    for when in (first, second):
        proxy.fault(faults.cut(when), "GET", WATCH)
    with service_watcher(tmp_path, proxied(cluster, proxy, name, tmp_path)) as watcher:
        seen = watcher.wait_seen(1)
        first.set()
        watcher.wait(lambda: len(watcher.messages) > 1 and watcher.messages[-1] == seen, "seen again, as before")
        cluster.set_capacity(name, {DONGLE: "2"})
        changed = wait_changed(watcher, seen)
        held = proxy.fault(faults.hold(resume := threading.Event()), "GET", WATCH)
        second.set()
        watcher.wait(lambda: held.matched, "the third connection")
        cluster.set_capacity(name, {DONGLE: "3"})
        resume.set()
        wait_changed(watcher, seen, changed)
        assert watcher.node is not None
        assert watcher.node.state is not None
        assert watcher.node.state.capacity is not None
        assert watcher.node.state.capacity[DONGLE] == "3"


def test_a_proxy_withholds_the_events(cluster: Cluster, proxy: Proxy, tmp_path: Path) -> None:
    """A connection without events does not count as a watch."""
    name = create_node(cluster)
    with service_watcher(tmp_path, proxied(cluster, proxy, name, tmp_path), limits=BRIEF) as watcher:
        watcher.wait_seen(1)
        withheld = proxy.fault(faults.withhold(threading.Event()), "GET", WATCH, times=None)
        watcher.wait(lambda: withheld.matched, "after the idle limit, there is another connection")
        watcher.wait(lambda: "hold responses back" in str(watcher.messages[-1]), "it is known")
        assert watcher.node is None


@pytest.mark.parametrize("how", ["withheld", "buffered"])
def test_a_proxy_holds_the_responses_back(cluster: Cluster, proxy: Proxy, how: str, tmp_path: Path) -> None:
    name = create_node(cluster)
    action = faults.buffer() if how == "buffered" else faults.withhold(threading.Event())
    proxy.fault(action, "GET", WATCH, times=None)
    with service_watcher(tmp_path, proxied(cluster, proxy, name, tmp_path), limits=BRIEF) as watcher:
        assert "hold responses back" in watcher.wait_not_watched()
        assert watcher.wait_ended() == 0


def test_the_resource_version_is_too_old(cluster: Cluster, proxy: Proxy, tmp_path: Path) -> None:
    """The error ends only the connection on which it comes."""
    name = create_node(cluster)
    failure = {"kind": "Status", "status": "Failure", "message": "too old resource version", "code": 410}
    event = json.dumps({"type": "ERROR", "object": failure}).encode() + b"\n"
    too_old = proxy.fault(faults.stream(event), "GET", WATCH)
    with service_watcher(tmp_path, proxied(cluster, proxy, name, tmp_path)) as watcher:
        assert "(HTTP 410): too old resource version" in watcher.wait_not_watched(1)
        watcher.wait_seen(2)
    assert len(too_old.matched) == 1


def test_the_credentials_expire(cluster: Cluster, tmp_path: Path) -> None:
    """The open watch goes on. A new connection needs new credentials, and they are read."""
    name = create_node(cluster)
    user = node_user(name)
    expires_at = time.time() + 10
    pem = short_lived_client(cluster.authority, tmp_path / "short", user, "system:nodes", 10)
    path = tmp_path / "kubeconfig"
    entry = {"client-certificate": str(pem), "client-key": str(pem)}
    path.write_text(kubeconfig(cluster.url, cluster.ca_file, entry))
    path.chmod(0o600)
    with service_watcher(tmp_path, path) as watcher:
        first = watcher.wait_seen(1)
        watcher.wait(lambda: time.time() > expires_at + 1, "the certificate has expired")
        cluster.set_capacity(name, {DONGLE: "2"})
        changed = watcher.wait_seen(2)
        assert changed != first, "the open watch goes on"
        cluster.api_server.stop(signal.SIGKILL)
        cluster.api_server.start()
        cluster.api_server.wait_ready()
        watcher.wait(lambda: "(HTTP 401)" in str(watcher.messages[-1]), "the new connection is denied")
        assert watcher.node is None
        cluster.kubeconfig(user, path)
        watcher.wait(lambda: watcher.messages[-1] == changed, "it is seen again, with the new credentials")

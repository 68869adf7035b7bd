"""The watcher on the real API server, with what a pass hands over."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.errors import NodeMissing
from capacityd.model.messages import NodeSeen
from capacityd.model.watch_target import WatchTarget
from capacityd.node import CredentialsCache, Machine, open_node
from tests.cluster.agent import CLIENT, DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user
from tests.cluster.identity import create_node
from tests.support.watching import Watching, watching

pytestmark = pytest.mark.protocol

BRIEF: dict[str, Any] = {"_CONNECT": 5.0, "_HEADER": 2.0, "FIRST_EVENT": 2.0, "IDLE": 3.0, "LONG_CONNECTION": 0.5}


def target_of(kubeconfig: Path, name: str | None = None) -> WatchTarget:
    """What a pass with this kubeconfig hands over. name: node_name in the configuration."""
    cache = CredentialsCache()
    node = open_node(str(kubeconfig), name, Machine("", None), cache)
    with suppress(NodeMissing):
        node.read()
    assert cache.target is not None
    return cache.target


def wait_changed(watcher: Watching, *before: NodeSeen) -> NodeSeen:
    """Waits until the Node is seen, with another fingerprint than before."""
    watcher.wait(lambda: isinstance(last := watcher.messages[-1], NodeSeen) and last not in before, "it has changed")
    return watcher.wait_seen(len(watcher.messages))


@pytest.mark.short
def test_the_kubelets_credentials_watch_the_own_node(cluster: Cluster) -> None:
    name = cluster.node_name()
    with watching(target_of(cluster.kubeconfig(node_user(name))), CLIENT, FIRST_EVENT=1.0) as watcher:
        watcher.wait_messages(1)  # that the Node does not exist, or that there is no event
        cluster.create_node(name)
        created = wait_changed(watcher, NodeSeen(""))
        cluster.set_capacity(name, {DONGLE: "2"})
        changed = wait_changed(watcher, created)
        count = len(watcher.messages)
        cluster.admin.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {"other.example/x": "1"}}})
        cluster.admin.delete(f"/api/v1/nodes/{name}")
        assert watcher.wait_seen(count + 1) == NodeSeen(""), "another annotation is no change"
        cluster.create_node(name)
        anew = wait_changed(watcher, NodeSeen(""))
    assert len({created, changed, anew}) == 3


def test_a_role_without_the_verb_is_named(cluster: Cluster, tmp_path: Path) -> None:
    name = create_node(cluster)
    user = f"reader-of-{name}"
    cluster.grant(user, "get", "nodes")
    path = cluster.kubeconfig(user, tmp_path / "kubeconfig", credentials="certificate")
    with watching(target_of(path, name), CLIENT) as watcher:
        assert 'the identity needs a role with the verb "watch" on "nodes"' in watcher.wait_not_watched().reason
        cluster.grant(user, "watch", "nodes")
        watcher.wait_seen(2)


def test_a_killed_api_server(cluster: Cluster) -> None:
    """The Node is watched again, and a change in the meantime is reported."""
    name = create_node(cluster)
    with watching(target_of(cluster.kubeconfig(node_user(name))), CLIENT) as watcher:
        first = watcher.wait_seen()
        cluster.api_server.stop(signal.SIGKILL)
        watcher.wait_last("Connection refused")
        cluster.api_server.start()
        cluster.api_server.wait_ready()
        watcher.wait_last("NodeSeen")
        assert watcher.messages[-1] == first
        cluster.set_capacity(name, {DONGLE: "2"})
        wait_changed(watcher, first)


def test_a_stopped_api_server(cluster: Cluster) -> None:
    """A server that hangs keeps its connections. After the idle limit, a pass looks at the Node."""
    name = create_node(cluster)
    with watching(target_of(cluster.kubeconfig(node_user(name))), CLIENT, **BRIEF) as watcher:
        first = watcher.wait_seen()
        os.kill(cluster.api_server.pid, signal.SIGSTOP)
        try:
            assert watcher.wait_not_watched(2).look_now
        finally:
            os.kill(cluster.api_server.pid, signal.SIGCONT)
        watcher.wait(lambda: watcher.messages[-1] == first, "it is seen again")

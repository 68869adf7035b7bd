"""The watcher on the real API server, with the target that a pass hands over."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import NodeMissing
from capacityd.model.messages import NodeSeen, NotWatched
from capacityd.node.api_node import ApiNode
from capacityd.node.identity import CredentialsCache, Machine
from capacityd.service import watcher_process
from capacityd.service.watcher_process import WatcherProcess
from tests import ROOT
from tests.cluster.agent import CLIENT, DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user
from tests.cluster.identity import create_node
from tests.support.watching import Watching, watching

pytestmark = pytest.mark.protocol


MISSING = NodeSeen("")  # what the watcher reports while the Node does not exist


def target_of(kubeconfig: Path) -> ClusterAccess:
    """The target that a pass with this kubeconfig hands over."""
    cache = CredentialsCache()
    node = ApiNode(str(kubeconfig), None, Machine("", None), cache)
    with suppress(NodeMissing):
        node.read()
    assert cache.watch_target is not None
    return cache.watch_target


def wait_changed(watcher: Watching, *before: NodeSeen) -> NodeSeen:
    """Waits until the Node is seen, with another fingerprint than before."""

    def has_changed() -> bool:
        last = watcher.messages[-1] if watcher.messages else None
        return isinstance(last, NodeSeen) and last not in before

    watcher.wait(has_changed, "the Node has changed")
    return watcher.wait_seen(len(watcher.messages))


@pytest.mark.short
def test_the_kubelets_credentials_watch_the_own_node(cluster: Cluster) -> None:
    name = cluster.node_name()
    with watching(target_of(cluster.kubeconfig(node_user(name))), CLIENT) as watcher:
        cluster.create_node(name)
        created = wait_changed(watcher, MISSING)
        cluster.set_capacity(name, {DONGLE: "2"})
        changed = wait_changed(watcher, created)
        count = len(watcher.messages)
        cluster.admin.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {"other.example/x": "1"}}})
        cluster.admin.delete(f"/api/v1/nodes/{name}")
        assert watcher.wait_seen(count + 1) == MISSING, "another annotation is no change"
        cluster.create_node(name)
        anew = wait_changed(watcher, MISSING)
    assert len({created, changed, anew}) == 3


def test_a_killed_api_server(cluster: Cluster) -> None:
    """The Node is watched again, and a change in the meantime is reported."""
    name = create_node(cluster)
    with watching(target_of(cluster.kubeconfig(node_user(name))), CLIENT) as watcher:
        first = watcher.wait_seen()
        cluster.api_server.kill()
        watcher.wait_last("Connection refused")
        cluster.api_server.start()
        cluster.api_server.wait_ready()
        watcher.wait_last("NodeSeen")
        assert watcher.messages[-1] == first
        cluster.set_capacity(name, {DONGLE: "2"})
        wait_changed(watcher, first)


def test_a_stopped_api_server(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that hangs keeps its connections. After SILENCE seconds, the watcher's failure asks for a pass."""
    monkeypatch.setattr(watcher_process, "SILENCE", 10.0)
    name = create_node(cluster)
    target = target_of(cluster.kubeconfig(node_user(name)))
    start = f"import sys; sys.path.insert(0, '{ROOT}/agent'); from capacityd.watcher.main import main; main([])"
    watcher = WatcherProcess([str(CLIENT), "-c", start])
    watcher.watch(target.as_json())

    def next_failure() -> NotWatched | None:
        poll = select.poll()
        watcher.register(poll)
        poll.poll(
            1000 * max(0.0, watcher.silent_at - time.monotonic()) + 1
        )  # milliseconds, until the watcher is silent
        return watcher.read_messages()

    try:
        while watcher.watched_since is None:
            assert next_failure() is None
        os.kill(cluster.api_server.pid, signal.SIGSTOP)
        while (failure := next_failure()) is None:
            pass
        assert failure == NotWatched("the watcher has received nothing for 10 s", look_now=True)
    finally:
        os.kill(cluster.api_server.pid, signal.SIGCONT)
        watcher.stop()

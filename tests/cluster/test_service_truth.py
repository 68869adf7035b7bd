"""The Node's condition is True only while nothing is wrong: each of its reasons, on the real API server and kubelet."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import ROOT
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.identity import create_node, identity, write
from tests.cluster.kubectl import kubectl
from tests.cluster.kubelet import Kubelet
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, PROMPT, PUBLISHED, Service, service
from tests.support.machines import usb_device

SEATS, OTHER, THIRD = "example.com/seats", "other.org/x", "third.org/y"
TRUE = ("True", "Published", "all configured resources are published")


def static(name: str, quantity: int, more: str = "") -> str:
    return f'[resources."{name}"]\nstatic = {{ quantity = {quantity} }}\n{more}\n'


def condition(s: Service) -> tuple[str | None, ...]:
    condition = s.condition()
    return tuple(condition.get(key) for key in ("status", "reason", "message"))


@pytest.fixture
def restricted(cluster: Cluster) -> Iterator[Service]:
    """A service with its own identity, which the packaged policy restricts to example.com."""
    admin = cluster.kubeconfig("admin")
    for name in ("identity.yaml", "policy.yaml"):
        applied = kubectl(cluster, admin, "apply", "-f", ROOT / "packaging/kubernetes" / name)
        assert applied.returncode == 0, applied.stderr
    node, other = create_node(cluster), create_node(cluster)
    own = identity(cluster, node, "certificate", cluster.folder / f"own-{node}")
    wait_until(lambda: "own Node only" in write(cluster, own, other, []), PATIENCE, "the policy is in force")
    with service(cluster, usb_device("1-1"), node=node) as s:
        s.kubeconfig.write_text(Path(own).read_text())
        yield s


@pytest.mark.protocol
def test_denied_resources_block_no_others(restricted: Service) -> None:
    names = (OTHER, THIRD)
    s = restricted
    s.configure(DONGLES + static(SEATS, 7) + "".join(static(name, 3) for name in names), f'node_name = "{s.node}"')
    s.start()
    assert (s.last_applied(), s.capacity(SEATS), s.capacity(OTHER)) == ({DONGLE: 1, SEATS: 7}, "7", None)
    status, reason, message = condition(s)
    assert (status, reason) == ("False", "Denied")
    assert str(message).startswith(f"denied: {', '.join(names)}: ")
    assert "capacityd may change capacity of these domains only: example.com" in str(message)
    requested = s.requested()
    changed = 2 + len(names)
    on_node = [request for request in requested if request.split()[1].startswith("nodes")]
    assert len(on_node) <= 2 + changed, on_node
    assert len(s.events()) == 2, "what was published, and what was denied"
    s.machine.plug("1-2")
    s.wait_capacity("2")
    assert [request for request in s.requested() if request.startswith("patch")] == ["patch nodes/status"]
    assert (s.capacity(OTHER), condition(s)[1]) == (None, "Denied")
    s.configure(DONGLES + static(SEATS, 7), f'node_name = "{s.node}"')
    s.reload()
    s.wait(lambda: condition(s) == TRUE, PROMPT, "what is not configured is not denied")


@pytest.mark.protocol
def test_less_than_expected(cluster: Cluster) -> None:
    with service(cluster, usb_device("1-1"), usb_device("1-2")) as s:
        s.configure(DONGLES + "expect = 2\n")
        s.start()
        assert condition(s) == TRUE
        s.machine.unplug("1-2")
        s.wait_capacity("1")
        below = ("False", "BelowExpected", f"below expected: {DONGLE} is 1 of 2")
        s.wait(lambda: condition(s) == below, PROMPT, "the condition reports it")
        s.machine.unplug("1-1")
        s.wait_capacity(None)
        assert condition(s)[2] == f"below expected: {DONGLE} is 0 of 2"
        s.machine.plug("1-1")
        s.machine.plug("1-2")
        s.wait(lambda: condition(s) == TRUE, PROMPT, "it is True again")
        expectations = [event for event in s.events() if "→" not in event]
        assert expectations == [f"{DONGLE}: 1, expected 2", f"{DONGLE}: 2"]


@contextmanager
def overwriting(cluster: Cluster, node: str) -> Iterator[None]:
    """Another writer that makes no dongle allocatable, whoever writes it."""
    end = threading.Event()

    def work() -> None:
        while not end.wait(0.2):
            if cluster.allocatable(node).get(DONGLE) != "0":
                cluster.admin.patch(f"/api/v1/nodes/{node}/status", {"status": {"allocatable": {DONGLE: "0"}}})

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@pytest.mark.protocol
def test_allocatable_is_written_with_capacity_and_its_loss_is_reported(cluster: Cluster, kubelet: Kubelet) -> None:
    """The kubelet has registered the Node and stops: each second it would undo what the other writer does."""
    kubelet.start()
    kubelet.stop()
    with service(cluster, usb_device("1-1"), node=kubelet.name, around=kubelet.inside([])) as s:
        with overwriting(cluster, kubelet.name):
            s.start()
            s.wait(lambda: condition(s)[1] == "NotAllocatable", 60, "the service notices")
            assert condition(s)[2] == f"not allocatable: {DONGLE} is 0 of 1"
            assert f"{DONGLE}: allocatable restored to 1: another writer set it to 0" in s.events()
        s.wait(lambda: condition(s) == TRUE, 60 + PROMPT, "it is True again")
        assert cluster.allocatable(kubelet.name)[DONGLE] == "1"
        s.wait(lambda: not s.last_pass().waits, 60, "nothing is due")
        s.requests()
        s.machine.plug("1-2")
        s.wait_capacity("2")
        assert (cluster.allocatable(kubelet.name)[DONGLE], condition(s)) == ("2", TRUE)
        s.wait(lambda: not s.last_pass().waits, PATIENCE, "it has read the Node again")
        assert s.requested() == [*PUBLISHED, "get nodes"]


def test_the_heartbeat_moves_at_each_resync(cluster: Cluster, s: Service) -> None:
    """With one GET and one PATCH, which changes nothing else."""
    s.configure(resync="80s")  # at least 64 s; a heartbeat is renewed when it is 60 s old
    s.start()
    before, node = s.condition(), cluster.node(s.node)
    s.requests()
    s.wait(lambda: s.condition()["lastHeartbeatTime"] > before["lastHeartbeatTime"], 96 + PATIENCE, "a heartbeat")
    assert s.requested() == ["get nodes", "patch nodes/status"]
    after = cluster.node(s.node)
    assert json.loads(after["metadata"]["annotations"]["capacityd/published"]) == {DONGLE: 1}
    for changed in (node, after):
        for key in ("resourceVersion", "managedFields"):
            changed["metadata"].pop(key, None)
        changed["status"]["conditions"] = [
            {k: v for k, v in c.items() if k != "lastHeartbeatTime"} for c in changed["status"]["conditions"]
        ]
    assert after == node

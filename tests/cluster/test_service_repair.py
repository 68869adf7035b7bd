"""Changes to the Node by the kubelet or another writer, and their repair."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from capacityd.model.reasons import PassReason
from capacityd.reconcile.memory import BURST, MIN_INTERVAL
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import Kubelet
from tests.cluster.nodewatch import watch_node
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import GET, PROMPT, PUBLISHED, Service, service
from tests.support.machines import usb_device

REPORTS = 5
"""Versions of the Node, one for each report of the kubelet."""


@contextmanager
def on_node(cluster: Cluster, kubelet: Kubelet) -> Iterator[Service]:
    """The service on a node whose kubelet runs, with two dongles published."""
    kubelet.start()
    parts = usb_device("1-1"), usb_device("1-2")
    with service(cluster, *parts, node=kubelet.name, around=kubelet.inside([])) as s:
        s.start()
        assert s.capacity() == "2"
        wait_until(lambda: cluster.allocatable(kubelet.name).get(DONGLE) == "2", PATIENCE, "allocatable follows")
        s.wait(lambda: s.last_pass().at and not s.last_pass().waits, PATIENCE, "it has settled")
        (row,) = s.status()["resources"]
        assert (row["capacity"], row["allocatable"]) == ("2", "2")
        s.requests()
        yield s


@pytest.mark.protocol
def test_the_kubelet_restarts(cluster: Cluster, kubelet: Kubelet) -> None:
    """A restart causes no request, unless the kubelet zeroes the Node."""
    with on_node(cluster, kubelet) as s:
        for wait in (False, True):
            kubelet.restart(wait=wait)
        assert s.requested() == []
        kubelet.restart(zeroing=True)
        s.wait_capacity("2")
        wait_until(lambda: cluster.allocatable(kubelet.name).get(DONGLE) == "2", PATIENCE, "allocatable follows")
        assert "restored" in s.events()[-1]
        assert s.requested() == PUBLISHED


def test_zeros_of_a_kubelet_whose_runtime_does_not_start_are_undone(cluster: Cluster, kubelet: Kubelet) -> None:
    """The kubelet creates its socket only when its runtime is ready. Its zeros are undone before."""
    with on_node(cluster, kubelet) as s, watch_node(cluster, kubelet.name) as watch:
        kubelet.stop()
        kubelet.start(zeroing=True, runtime_starts=False)
        s.wait_capacity("2")
        s.wait(lambda: s.condition()["status"] == "True", PROMPT, "the condition is True")
        seen = len(watch.versions)
        s.wait(lambda: len(watch.versions) > seen + REPORTS, PATIENCE, "the kubelet reports its Node")
        assert not kubelet_socket(kubelet)
        kubelet.start_runtime()
        s.wait(lambda: kubelet_socket(kubelet), PATIENCE, "the kubelet creates its socket")
        assert {version.allocatable[DONGLE] for version in watch.versions[seen:]} == {"2"}
        assert {version.condition["status"] for version in watch.versions[seen:]} == {"True"}


def kubelet_socket(kubelet: Kubelet) -> bool:
    """Whether the socket exists with which device plugins register."""
    return (kubelet.device_plugins / "kubelet.sock").exists()


def test_the_kubelet_rewrites_its_checkpoint(cluster: Cluster, kubelet: Kubelet) -> None:
    """The kubelet does so for each pod with devices. A pass reads the Node, and writes only if a name of capacityd's is
    concerned."""
    with on_node(cluster, kubelet) as s, kubelet.device_plugin("vendor.example/card", 2):
        settle(s)
        s.requests()
        document = json.loads(kubelet.checkpoint.read_text())
        names = document["Data"]["RegisteredDevices"]

        def rewrite(text: str) -> None:
            passes = s.passes()
            replace(kubelet.checkpoint, text)
            s.wait_passes(1, passes)
            assert s.last_pass().reasons == (PassReason.PLUGINS,)

        rewrite(json.dumps(document | {"Checksum": 1}))
        names["vendor.example/other"] = ["1"]
        rewrite(json.dumps(document))
        assert s.requested() == [GET, GET]

        rewrite('{"Data": ')
        cluster.set_capacity(kubelet.name, {DONGLE: "9"})
        s.reload()
        assert (s.capacity(), s.last_applied()) == ("9", {DONGLE: 2}), "a device plugin may have written it"
        assert s.condition()["message"].startswith(f"refused: {DONGLE}: ")
        rewrite(json.dumps(document))
        s.wait_capacity("2")
        s.wait(lambda: s.condition()["status"] == "True", PROMPT, "nothing is wrong any more")
        s.requests()

        names[DONGLE] = ["1"]
        rewrite(json.dumps(document))
        assert s.requested()[:2] == PUBLISHED[:2]
        del names[DONGLE]
        rewrite(json.dumps(document))
        assert s.requested()[:2] == PUBLISHED[:2], "the name was given up"


def replace(path: Path, text: str) -> None:
    """Replaces a file in one step, as the kubelet does."""
    new = path.with_name(".new")
    new.write_text(text)
    new.rename(path)


def test_what_another_writer_changes_is_restored_and_then_once_a_minute(cluster: Cluster, s: Service) -> None:
    """The service restores the quantity. After the sixth write, it does so only once a minute."""
    s.start()
    s.requests()
    cluster.set_capacity(s.node, {DONGLE: None})
    s.wait_capacity("1")
    s.machine.plug("1-2")
    s.wait_capacity("2")
    assert len(capacity_writes(s)) == 2
    for theirs in range(3, BURST):
        cluster.set_capacity(s.node, {DONGLE: str(theirs)})
        s.wait_capacity("2")
    *_, last = quick = capacity_writes(s)
    assert len(quick) == BURST - 3

    cluster.set_capacity(s.node, {DONGLE: "9"})
    s.wait(lambda: s.held_back(), PROMPT, "it is held back")
    (held,) = s.status()["resources"]
    assert held["capacity"] == "9"
    s.wait_capacity("2", deadline=PATIENCE)
    (put_back,) = capacity_writes(s)
    assert put_back - last > MIN_INTERVAL / 2, "else it is put back at once"
    events = [event.partition(":")[2] for event in s.events() if "→" in event]
    assert [*events[1:3], events[-1]] == [
        " none → 1 (missing from the Node, although 1 was published)",
        " 1 → 2 (the reading changed)",
        " 9 → 2 (restored: another writer wrote 9); pods that no longer fit are stopped at the kubelet's next start",
    ]


def capacity_writes(s: Service) -> list[float]:
    """When the service changed a quantity since the last call, in seconds. Heartbeats do not count."""
    patches = [r for r in s.requests() if r.verb == "patch"]
    return [r.received for r in patches if r.body.get("status", {}).get("capacity")]


def settle(s: Service) -> None:
    """Waits until the service has made another pass, and no pass is due."""
    passes = s.passes()
    s.machine.event("change", "/sys/devices/nothing", "usb", "usb_device")
    s.wait_passes(1, passes)
    s.wait(lambda: not s.last_pass().waits, PATIENCE, "no pass is due")

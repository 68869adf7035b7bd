"""Changes to the Node by the kubelet or another writer, and their repair."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from capacityd.model.reasons import PassReason
from capacityd.reconcile.timing import BURST, MIN_INTERVAL
from tests.cluster import faults
from tests.cluster.agent import ANNOTATION, DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import Kubelet
from tests.cluster.kubelet import kubelet as kubelet_of
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.proxy import Proxy
from tests.cluster.service import PROMPT, PUBLISHED, Service, service
from tests.support.machines import usb_device

HELD = 20.0  # seconds for which the proxy holds the kubelet's zeros back


@contextmanager
def on_node(cluster: Cluster, kubelet: Kubelet) -> Iterator[Service]:
    """The service on a node whose kubelet runs, with two dongles published."""
    kubelet.start()
    parts = usb_device("1-1"), usb_device("1-2")
    with service(cluster, *parts, node=kubelet.name, around=kubelet.inside([])) as s:
        s.start()
        assert s.capacity() == "2"
        wait_until(lambda: cluster.allocatable(kubelet.name).get(DONGLE) == "2", PATIENCE, "allocatable follows")
        s.wait(
            lambda: s.last_pass().at and not s.last_pass().waits,
            PATIENCE,
            "it has settled",
        )
        (row,) = s.status()["resources"]
        assert (row["capacity"], row["allocatable"]) == ("2", "2")
        s.requests()
        yield s


@pytest.mark.protocol
def test_the_kubelet_restarts(cluster: Cluster, kubelet: Kubelet) -> None:
    """First it zeroes nothing and may report nothing either, then it reports its Node, and then it zeroes."""
    with on_node(cluster, kubelet) as s:
        passes = s.passes()
        kubelet.restart(wait=False)
        s.wait_passes(1, passes)
        assert set(s.requested()) == {"get nodes"}
        kubelet.restart()
        settle(s)
        assert set(s.requested()) == {"get nodes"}
        kubelet.restart(zeroing=True)
        s.wait_capacity("2")
        wait_until(lambda: cluster.allocatable(kubelet.name).get(DONGLE) == "2", PATIENCE, "allocatable follows")
        assert "restored" in s.events()[-1]
        assert s.requested().count("patch nodes/status") == 1


@pytest.mark.protocol
def test_the_kubelets_zeros_come_late(cluster: Cluster, proxy: Proxy) -> None:
    with kubelet_of(cluster, server=proxy.url) as kubelet, on_node(cluster, kubelet) as s:
        kubelet.stop()
        kubelet.clear_device_plugins()
        kubelet.set_runtime_ready(False)
        go, mark = threading.Event(), cluster.audit.mark()
        held = proxy.fault(faults.hold(go), "PATCH", f"/api/v1/nodes/{kubelet.name}/status")
        kubelet.start(wait=False)
        wait_until(lambda: held.matched, PATIENCE, "the kubelet writes its Node")
        kubelet.set_runtime_ready(True)
        wait_until(kubelet.socket.exists, PATIENCE, "the socket is there")
        timer = threading.Timer(HELD, go.set)
        timer.start()
        try:
            # The Node itself may show it for a moment only.
            wait_until(lambda: kubelet.has_zeroed(mark, [DONGLE]), HELD + PATIENCE, "the zeros land")
            s.wait_capacity("2")
        finally:
            timer.cancel()
        assert "restored" in s.events()[-1]
        assert [request for request in s.requested() if request != "get nodes"] == PUBLISHED[1:]


@pytest.mark.protocol
def test_the_node_is_deleted_and_registered_again(cluster: Cluster, kubelet: Kubelet) -> None:
    with on_node(cluster, kubelet) as s:
        uid = cluster.node(kubelet.name)["metadata"]["uid"]
        kubelet.stop()
        cluster.admin.delete(f"/api/v1/nodes/{kubelet.name}")
        kubelet.start()
        s.wait_capacity("2")
        assert cluster.node(kubelet.name)["metadata"]["uid"] != uid
        assert s.last_applied() == {DONGLE: 2}


def test_the_kubelet_rewrites_its_checkpoint(cluster: Cluster, kubelet: Kubelet) -> None:
    """As it does for each pod with devices. Only a name that is ours, or is to be, is a reason for a request."""
    with on_node(cluster, kubelet) as s, kubelet.device_plugin("vendor.example/card", 2):
        settle(s)
        s.requests()
        document = json.loads(kubelet.checkpoint.read_text())
        for checksum in range(5):
            passes = s.passes()
            replace(kubelet.checkpoint, json.dumps(document | {"Checksum": checksum}))
            s.wait_passes(1, passes)
            assert s.last_pass().reasons == (PassReason.PLUGINS,)
        for name, request in (("vendor.example/other", []), (DONGLE, ["get nodes"])):
            assert s.requested() == []
            document["Data"]["RegisteredDevices"][name] = ["1"]
            passes = s.passes()
            replace(kubelet.checkpoint, json.dumps(document))
            s.wait_passes(1, passes)
            assert s.last_pass().reasons == (PassReason.PLUGINS,)
            assert s.requested()[:1] == request
        passes = s.passes()
        del document["Data"]["RegisteredDevices"][DONGLE]
        replace(kubelet.checkpoint, json.dumps(document))
        s.wait_passes(1, passes)
        assert s.requested()[:1] == ["get nodes"], "the name was given up"


def test_while_the_checkpoint_is_unreadable_another_writer_is_not_reverted(cluster: Cluster, kubelet: Kubelet) -> None:
    """It may be a device plugin; once that is known not to be so, what it wrote is put back."""
    with on_node(cluster, kubelet) as s:
        passes = s.passes()
        replace(kubelet.checkpoint, '{"Data": ')
        s.wait_passes(1, passes)
        s.requests()
        for value, expected in (("9", PUBLISHED), ("8", PUBLISHED[:2]), ("7", PUBLISHED[:2])):
            cluster.set_capacity(kubelet.name, {DONGLE: value})
            s.reload()
            assert s.requested() == expected, "only the first is an Event; the condition has each value"
            assert s.capacity() == value
        assert s.condition()["message"].startswith(f"refused: {DONGLE}: ")
        assert "another writer (a device plugin?) set it to 9" in s.events()[-1]
        assert s.last_applied() == {DONGLE: 2}
        kubelet.checkpoint.unlink()
        s.wait_capacity("2")
        s.wait(lambda: s.condition()["status"] == "True", PROMPT, "nothing is wrong any more")


def replace(path: Path, text: str) -> None:
    """In one step, as the kubelet does it."""
    new = path.with_name(".new")
    new.write_text(text)
    new.rename(path)


@pytest.mark.protocol
def test_a_device_plugin_takes_the_name_over(cluster: Cluster, kubelet: Kubelet) -> None:
    with on_node(cluster, kubelet) as s:
        with kubelet.device_plugin(DONGLE, 5):
            s.wait(lambda: s.last_applied() == {}, PATIENCE, "it steps back")
            wait_until(lambda: s.capacity() == "5", PATIENCE, "the kubelet writes the plugin's devices")
            settle(s)
            s.requests()
            s.machine.plug("1-3")
            settle(s)
            assert "patch nodes/status" not in s.requested()
            assert s.condition()["message"].startswith(f"refused: {DONGLE}: ")
            (refusal,) = [event for event in s.events() if "a device plugin has this name" in event]
        kubelet.stop()
        kubelet.checkpoint.unlink()
        cluster.set_capacity(kubelet.name, {DONGLE: "0"})
        kubelet.start()
        settle(s)
        s.machine.plug("1-4")
        settle(s)
        assert s.capacity() == "0", "a zero that is not ours is no invitation"
        assert [event for event in s.events() if "→" not in event] == [refusal]


def test_another_writer(cluster: Cluster, s: Service) -> None:
    """Its change is undone at the next pass, and as long as it fights, once a minute after the sixth write."""
    s.configure(resync="3s")
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
    assert put_back - last > MIN_INTERVAL / 2, "a resync, which is every 3 s, would have put it back"
    events = [event.partition(":")[2] for event in s.events()]
    assert [*events[1:3], events[-1]] == [
        " none → 1 (missing from the Node, although 1 was published)",
        " 1 → 2 (the reading changed)",
        " 9 → 2 (restored: another writer wrote 9); pods that no longer fit are stopped at the kubelet's next start",
    ]


def test_a_writer_that_loses_the_annotation(cluster: Cluster, s: Service) -> None:
    """At random, several times a second, it removes the annotation or breaks it, and writes a value of its own."""
    s.configure(resync="1s")
    s.start()
    random = Random(35)  # a test's own
    passes = s.passes()
    while s.passes() < passes + 8:
        text, value = random.choice([None, "", "garbage"]), random.choice([None, "0", "3", "7"])
        change = {"metadata": {"annotations": {ANNOTATION: text}}, "status": {"capacity": {DONGLE: value}}}
        cluster.admin.patch(f"/api/v1/nodes/{s.node}/status", change)
        threading.Event().wait(random.uniform(0.05, 0.5))
    s.wait_capacity("1", deadline=MIN_INTERVAL + PROMPT)
    s.wait(lambda: s.last_applied() == {DONGLE: 1}, PROMPT, "the annotation is there")
    s.wait(lambda: s.condition()["status"] == "True", MIN_INTERVAL + PROMPT, "nothing is wrong any more")


@pytest.mark.protocol
def test_a_flapping_reading_writes_the_condition_at_the_rate_limit(cluster: Cluster) -> None:
    with service(cluster) as s:
        seats = s.folder / "seats"
        seats.write_text("7")
        s.configure(f'[resources."example.com/seats"]\nfile = {{ path = "{seats}" }}\n')
        s.start()
        s.requests()
        for number in range(10):
            passes = s.passes()
            replace(seats, "7" if number % 2 else "not yet")
            s.wait_passes(1, passes)
        requested = s.requested()
        assert requested.count("patch nodes/status") == BURST
        assert len(requested) == 2 * BURST, "nor does it read the Node in between"
        assert s.last_applied() == {"example.com/seats": 7}
        assert s.condition()["status"] == "True"


def capacity_writes(s: Service) -> list[float]:
    """When its requests since the last call changed a quantity, in seconds: not the heartbeat."""
    patches = [r for r in s.requests() if r.verb == "patch"]
    changed = [[o["path"] for o in r.body if o["op"] != "test"] for r in patches]
    return [r.received for r, paths in zip(patches, changed, strict=True) if any(map(_of_capacity, paths))]


def _of_capacity(path: str) -> bool:
    return path.startswith("/status/capacity")


def settle(s: Service) -> None:
    """Until it has made another pass, and none is due."""
    passes = s.passes()
    s.machine.event("change", "/sys/devices/nothing", "usb", "usb_device")
    s.wait_passes(1, passes)
    s.wait(lambda: not s.last_pass().waits, PATIENCE, "no pass is due")

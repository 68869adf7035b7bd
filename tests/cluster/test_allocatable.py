"""The real kubelet keeps the allocatable that capacityd writes, and the real scheduler places pods by it."""

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user
from tests.cluster.kubelet import Kubelet
from tests.cluster.pods import ended_or_runs, out_of
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import Service, service
from tests.support.machines import usb_device

pytestmark = pytest.mark.protocol

PERIODS, RESOURCES = 3, 6


def test_the_kubelet_leaves_it_as_it_is(cluster: Cluster, kubelet: Kubelet) -> None:
    """After a raise, a reduction and a removal, for three status reports of the kubelet each."""
    kubelet.start()
    with service(cluster, usb_device("1-1"), node=kubelet.name, around=kubelet.inside([])) as s:
        s.start()
        s.machine.plug("1-2")
        left_alone(cluster, s, "2")
        s.machine.unplug("1-2")
        left_alone(cluster, s, "1")
        s.machine.unplug("1-1")
        left_alone(cluster, s, None)


def left_alone(cluster: Cluster, s: Service, quantity: str | None) -> None:
    mark = cluster.audit.mark()
    s.wait_capacity(quantity)

    def reports() -> list[str]:
        patches = [r for r in cluster.audit.since(mark) if r.user == node_user(s.node) and r.verb == "patch"]
        theirs = [r for r in patches if r.user_agent.startswith("kubelet/") and r.subresource == "status"]
        ours = [r for r in patches if r.user_agent.startswith("capacityd/") and r.code == 200]
        after = [r for r in theirs if r.resource == "nodes" and ours and r.received > ours[0].answered]
        return [json.dumps(r.body) for r in after]

    bodies = wait_until(lambda: sent if len(sent := reports()) >= PERIODS else None, PATIENCE, "the kubelet reports")
    assert not [body for body in bodies or [] if DONGLE in body]
    assert cluster.capacity(s.node).get(DONGLE) == cluster.allocatable(s.node).get(DONGLE) == quantity
    assert s.condition()["status"] == "True"


def test_pods_that_wait_get_the_devices_that_are_plugged_in(cluster: Cluster, kubelet: Kubelet) -> None:
    """Each pod requests another resource, because capacityd limits the rate at which a resource changes.

    On a busy machine a kubelet may learn of an increase later than the scheduler, and refuse the pod
    (docs/explanation.md).
    """
    kubelet.start()
    names = {f"S{number}": f"example.com/r{number}" for number in range(RESOURCES)}
    with service(cluster, node=kubelet.name, around=kubelet.inside([])) as s:
        s.configure("".join(f'[resources."{n}"]\nusb = {{ serial = "{serial}" }}\n' for serial, n in names.items()))
        s.start()
        pods = [cluster.create_pod(kubelet.name, {name: "1"}) for name in names.values()]
        for pod in pods:
            wait_until(partial(cluster.unschedulable, pod), PATIENCE, f"{pod} waits")
        for number, (serial, pod) in enumerate(zip(names, pods, strict=True)):
            restarts = number == RESOURCES // 2
            if restarts:
                kubelet.stop()
            s.machine.plug(f"1-{1 + number}", serial=serial)
            wait_until(partial(bound, cluster, pod), PATIENCE, f"{pod} is bound")
            if restarts:
                kubelet.start()
            wait_until(partial(ended_or_runs, cluster, pod), PATIENCE, f"{pod} is admitted")
        for pod, name in zip(pods, names.values(), strict=True):
            assert (cluster.pod_phase(pod), out_of(cluster, pod, name)) == ("Running", False)


def bound(cluster: Cluster, pod: str) -> bool:
    return "nodeName" in cluster.pod(pod)["spec"]

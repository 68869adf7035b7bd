"""Allocatable that capacityd writes, on the real kubelet and scheduler: it stays, and pods get what it says."""

from __future__ import annotations

import json

import pytest

from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user
from tests.cluster.kubelet import Kubelet
from tests.cluster.placing import CONFIG, RESOURCES, place_one_by_one
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import Service, service
from tests.support.machines import usb_device

pytestmark = pytest.mark.protocol

PERIODS = 3


def test_the_kubelet_leaves_it_as_it_is(cluster: Cluster, kubelet: Kubelet) -> None:
    """After a raise, a reduction and a removal, through three of its status periods. It reports in each."""
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
    """One for each resource.

    On a busy machine a kubelet may learn later than the scheduler that there is more of a resource, and refuse the pod
    (docs/explanation.md).
    """
    kubelet.start()
    with service(cluster, node=kubelet.name, around=kubelet.inside([])) as s:
        s.configure(CONFIG)
        s.start()
        assert len(place_one_by_one(cluster, kubelet, s, RESOURCES, restarts={5})) == RESOURCES

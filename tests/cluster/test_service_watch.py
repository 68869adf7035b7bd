"""In every version of the Node, the condition is True only if everything published is allocatable."""

from __future__ import annotations

from itertools import groupby

import pytest

from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import Kubelet
from tests.cluster.nodewatch import NodeWatch, untrue_after_others, watch_node
from tests.cluster.service import PROMPT, Service, service
from tests.support.machines import usb_device

pytestmark = pytest.mark.protocol


def wait_true(s: Service, quantity: str | None) -> None:
    """Waits until this many dongles are published and allocatable, and the condition is True."""

    def reached() -> bool:
        node = s.cluster.node(s.node)["status"]
        return [node[key].get(DONGLE) for key in ("capacity", "allocatable")] == [quantity, quantity]

    s.wait(reached, PROMPT, f"{quantity} are allocatable")
    s.wait(lambda: s.condition().get("status") == "True", PROMPT, "the condition is True")


def live_through(cluster: Cluster, kubelet: Kubelet) -> NodeWatch:
    """The Node's versions during a join, a raise, a reduction, restarts of the kubelet, and a new registration."""
    parts = usb_device("1-1"), usb_device("1-2")
    around = kubelet.inside([])
    with (
        watch_node(cluster, kubelet.name) as watch,
        service(cluster, *parts, node=kubelet.name, around=around) as s,
    ):
        kubelet.start()
        s.start()
        wait_true(s, "2")
        s.machine.plug("1-3")
        wait_true(s, "3")
        s.machine.unplug("1-3")
        wait_true(s, "2")
        kubelet.restart()
        wait_true(s, "2")
        kubelet.restart(zeroing=True)
        wait_true(s, "2")
        kubelet.stop()
        cluster.admin.delete(f"/api/v1/nodes/{kubelet.name}")
        kubelet.start()
        wait_true(s, "2")
    return watch


def test_the_condition_is_true_only_while_all_is_allocatable(cluster: Cluster, kubelet: Kubelet) -> None:
    watch = live_through(cluster, kubelet)
    quantities = [version.allocatable.get(DONGLE) for version in watch if version.condition.get("status") == "True"]
    assert [quantity for quantity, _ in groupby(q for q in quantities if q != "0")] == ["2", "3", "2"]
    types = [version.type for version in watch]
    assert (types.count("ADDED"), types.count("DELETED")) == (2, 1)
    for untrue in untrue_after_others(watch.versions):
        assert untrue.allocatable[DONGLE] == "0", "only the kubelet's 0 makes a version untrue"
        healed = next(v.received for v in watch if v.received > untrue.received and not v.untrue)
        assert healed - untrue.received < 60

"""In each version that a watch delivers, the Node's condition is True only if everything published is allocatable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby

import pytest

from tests import ROOT
from tests.cluster.agent import DONGLE
from tests.cluster.api import Api
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN, node_user, token_of
from tests.cluster.kubectl import kubectl
from tests.cluster.kubelet import Kubelet
from tests.cluster.nodewatch import NodeWatch, untrue_after_others, watch_node
from tests.cluster.pods import run_pod
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import PROMPT, Service, service
from tests.cluster.versions import MUTATING_POLICIES
from tests.support.machines import usb_device

pytestmark = pytest.mark.protocol

KEEP = ROOT / "packaging/kubernetes/keep-capacity.yaml"
THEIRS, PLUGIN = "other.example/theirs", "vendor.example/card"


def wait_true(s: Service, quantity: str | None) -> None:
    """Waits until this many dongles are published and allocatable, and the condition is True."""

    def reached() -> bool:
        node = s.cluster.node(s.node)["status"]
        return [node[key].get(DONGLE) for key in ("capacity", "allocatable")] == [quantity, quantity]

    s.wait(reached, PROMPT, f"{quantity} are allocatable")
    s.wait(lambda: s.condition().get("status") == "True", PROMPT, "the condition is True")


def live_through(cluster: Cluster, kubelet: Kubelet) -> NodeWatch:
    """Takes the Node through a join, a raise, a reduction, restarts of the kubelet, and a new registration."""
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
        assert untrue.allocatable[DONGLE] == "0", "the kubelet's zero is the only one that another writes"
        healed = next(v.received for v in watch if v.received > untrue.received and not v.untrue)
        assert healed - untrue.received < 60


@pytest.fixture
def keeping(cluster: Cluster) -> Iterator[None]:
    """Applies the packaged policy, which keeps our quantities when a kubelet writes zeros."""
    admin = cluster.kubeconfig(ADMIN)
    applied = kubectl(cluster, admin, "apply", "-f", KEEP)
    assert applied.returncode == 0, applied.stderr
    node = cluster.create_node()
    mine = {"metadata": {"annotations": {"capacityd/published": json.dumps({DONGLE: 1})}}}
    cluster.admin.patch(f"/api/v1/nodes/{node}", mine)
    cluster.set_capacity(node, {DONGLE: "1"})
    wait_until(lambda: try_zero(cluster, node)[DONGLE] == "1", PATIENCE, "the policy is in force")
    yield
    kubectl(cluster, admin, "delete", "-f", KEEP)


def try_zero(cluster: Cluster, node: str, name: str = DONGLE) -> dict[str, str]:
    """The capacity that the Node would have if its kubelet wrote a 0."""
    kubelet = Api(cluster.url, cluster.ca_file, token_of(node_user(node)))
    zero = {"status": {"capacity": {name: "0"}, "allocatable": {name: "0"}}}
    return dict(kubelet.patch(f"/api/v1/nodes/{node}/status?dryRun=All", zero, "strategic")["status"]["capacity"])


@pytest.mark.since(MUTATING_POLICIES)
@pytest.mark.usefixtures("keeping")
def test_with_the_policy_no_zero_of_a_kubelet_is_ever_seen(cluster: Cluster, kubelet: Kubelet) -> None:
    parts = usb_device("1-1"), usb_device("1-2")
    with service(cluster, *parts, node=kubelet.name, around=kubelet.inside([])) as s:
        kubelet.start()
        cluster.set_capacity(kubelet.name, {THEIRS: "7"})
        s.start()
        wait_true(s, "2")
        pod = run_pod(cluster, kubelet.name, DONGLE, "2")
        with watch_node(cluster, kubelet.name) as watch:
            mark = cluster.audit.mark()
            kubelet.restart(zeroing=True)
            assert kubelet.has_zeroed(mark, [DONGLE, THEIRS]), "it has tried"
            assert cluster.capacity(kubelet.name)[THEIRS] == "0", "what is not ours is untouched"
            wait_true(s, "2")
        assert len(watch.versions) > 1
        for version in watch:
            assert version.allocatable[DONGLE] == version.node["status"]["capacity"][DONGLE] == "2"
            assert not version.untrue
        assert cluster.pod_phase(pod) == "Running"
        # The policy lets a device plugin's own 0 and our own 0 pass.
        with kubelet.device_plugin(PLUGIN, 1):
            wait_until(lambda: cluster.allocatable(kubelet.name).get(PLUGIN) == "1", PATIENCE, "its devices are there")
        wait_until(lambda: cluster.allocatable(kubelet.name).get(PLUGIN) == "0", PATIENCE, "and gone with it")
        s.configure(f'[resources."{DONGLE}"]\nstatic = {{ quantity = 0 }}\n')
        s.reload()
        wait_true(s, "0")

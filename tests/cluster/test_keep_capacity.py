"""The shipped policy that keeps published numbers when a kubelet sets them to 0, on the real API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest
import yaml

from capacityd.model.node import ANNOTATION
from tests import ROOT
from tests.cluster.agent import DONGLE
from tests.cluster.api import Api
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user, token_of
from tests.cluster.kubectl import applied
from tests.cluster.kubelet import Kubelet
from tests.cluster.nodewatch import watch_node
from tests.cluster.pods import run_pod
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import service_on_machine
from tests.cluster.versions import MUTATING_POLICIES
from tests.support.machines import usb_device

pytestmark = pytest.mark.since(MUTATING_POLICIES)

KEEP = ROOT / "packaging/kubernetes/keep-capacity.yaml"
A, B = "example.com/a", "example.com/b"
THEIRS, PLUGIN = "other.example/theirs", "vendor.example/card"
LONG_DOMAIN = ".".join(["d" * 43, "d" * 43, "d" * 43, "example"])
compact = partial(json.dumps, separators=(",", ":"))

Write = Callable[[str, Mapping[str, int]], Mapping[str, str]]


@pytest.fixture(scope="module")
def write_zeros(cluster: Cluster) -> Iterator[Write]:
    """A function for a Node with this annotation and capacity. The policy is in force.

    A kubelet sets every key to 0. The function returns the capacity that the Node would have then.
    """

    def write(annotation: str, capacity: Mapping[str, int]) -> Mapping[str, str]:
        node = cluster.create_node(annotations={ANNOTATION: annotation})
        cluster.set_capacity(node, {name: str(number) for name, number in capacity.items()})
        kubelet = Api(cluster.url, cluster.ca_file, token_of(node_user(node)))
        zeros = dict.fromkeys(capacity, "0")
        written = {"status": {"capacity": zeros, "allocatable": zeros}}
        status = kubelet.patch(f"/api/v1/nodes/{node}/status?dryRun=All", written, "strategic")["status"]
        cluster.admin.delete(f"/api/v1/nodes/{node}")
        kept = {name: status["capacity"][name] for name in capacity}
        assert {name: status["allocatable"][name] for name in capacity} == kept
        return kept

    def is_in_force() -> bool:
        return write(compact({A: 4}), {A: 4}) == {A: "4"}

    with applied(cluster, KEEP, is_in_force):
        yield write


def names(number: int, length: int) -> list[str]:
    """This number of names of resources, each of this length, such as example.com/00000000001."""
    domain = "example.com" if length < 75 else LONG_DOMAIN
    digits = length - len(domain) - 1
    return [f"{domain}/{n:0{digits}}" for n in range(number)]


# The last two annotations have almost 256 KiB, which is the limit for an annotation.
@pytest.mark.parametrize(("number", "length"), [(1, 23), (300, 23), (7000, 23), (5500, 40), (1200, 200)])
def test_all_published_resources_are_kept(write_zeros: Write, number: int, length: int) -> None:
    """The API server limits the cost of a policy, and the size of annotations."""
    published = dict.fromkeys(names(number, length), 4)
    assert set(write_zeros(compact(published), published).values()) == {"4"}


@pytest.mark.parametrize("form", [compact, json.dumps, partial(json.dumps, indent=2)], ids=["ours", "spaces", "lines"])
def test_any_json_object_is_understood(write_zeros: Write, form: Callable[[object], str]) -> None:
    capacity = {A: 4, B: 70, "example.com/0": 5, "example.com/zero": 3, "example.com/other": 2}
    published = {A: 4, B: 70, "example.com/0": 5, "example.com/zero": 0}
    expected = {A: "4", B: "70", "example.com/0": "5", "example.com/zero": "0", "example.com/other": "0"}
    assert write_zeros(form(published), capacity) == expected


@pytest.mark.parametrize(
    "annotation", ["", "{}", "null", "[1,2]", '{"', "4", '{"example.com/aa":4,"xexample.com/a":4}']
)
def test_a_name_that_is_not_published_is_not_kept(write_zeros: Write, annotation: str) -> None:
    assert write_zeros(annotation, {A: 4}) == {A: "0"}


def test_an_error_in_the_policy_stops_no_kubelet() -> None:
    policy, _ = yaml.safe_load_all(KEEP.read_text())
    assert policy["spec"]["failurePolicy"] == "Ignore"


@pytest.mark.protocol
@pytest.mark.usefixtures("write_zeros")
def test_with_the_policy_no_zero_of_a_kubelet_is_ever_seen(cluster: Cluster, kubelet: Kubelet) -> None:
    dongles = usb_device("1-1"), usb_device("1-2")
    with service_on_machine(cluster, *dongles, kubelet=kubelet) as service:
        kubelet.start()
        cluster.set_capacity(kubelet.name, {THEIRS: "7"})
        service.start()
        service.wait_true("2")
        pod = run_pod(cluster, kubelet.name, DONGLE, "2")
        with watch_node(cluster, kubelet.name) as watch:
            mark = cluster.audit.mark()
            kubelet.restart(zeroing=True)
            assert kubelet.has_zeroed(mark, [DONGLE, THEIRS]), "the kubelet has tried"
            assert cluster.capacity(kubelet.name)[THEIRS] == "0", "the policy keeps only published resources"
            service.wait_true("2")
        assert len(watch.versions) > 1
        for version in watch:
            assert version.allocatable[DONGLE] == version.node["status"]["capacity"][DONGLE] == "2"
            assert not version.wrongly_true
        assert cluster.pod_phase(pod) == "Running"
        # The policy lets a device plugin's own 0 and our own 0 pass.
        with kubelet.device_plugin(PLUGIN, 1):
            wait_until(
                lambda: cluster.allocatable(kubelet.name).get(PLUGIN) == "1", PATIENCE, "the plugin's device is there"
            )
        wait_until(lambda: cluster.allocatable(kubelet.name).get(PLUGIN) == "0", PATIENCE, "it is gone with the plugin")
        service.configure(f'[resources."{DONGLE}"]\nstatic = {{ quantity = 0 }}\n')
        service.reload()
        service.wait_true("0")

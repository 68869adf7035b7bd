"""The shipped policy that keeps a kubelet's zeros away, on the real API server: how many resources, in which form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest
import yaml

from capacityd.model.node import ANNOTATION
from tests import ROOT
from tests.cluster.api import Api
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN, node_user, token_of
from tests.cluster.kubectl import kubectl
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.versions import MUTATING_POLICIES

pytestmark = pytest.mark.since(MUTATING_POLICIES)

KEEP = ROOT / "packaging/kubernetes/keep-capacity.yaml"
A, B = "example.com/a", "example.com/b"
COMPACT = partial(json.dumps, separators=(",", ":"))

Write = Callable[[str, Mapping[str, int]], Mapping[str, str]]


@pytest.fixture(scope="module")
def write_zeros(cluster: Cluster) -> Iterator[Write]:
    """The policy is in force. The function takes a Node's annotation and capacity. A kubelet then sets every key to 0.

    The function returns the capacity that the Node would have.
    """
    admin = cluster.kubeconfig(ADMIN)
    applied = kubectl(cluster, admin, "apply", "-f", KEEP)
    assert applied.returncode == 0, applied.stderr

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

    wait_until(lambda: write(COMPACT({A: 4}), {A: 4}) == {A: "4"}, PATIENCE, "the policy is in force")
    yield write
    kubectl(cluster, admin, "delete", "-f", KEEP)


def names(number: int, length: int) -> list[str]:
    """Names of this length."""
    labels = f"{'d' * 60}." * 4
    results = []
    for n in range(number):
        domain = "example.com" if length < 75 else f"{labels[: length - 75]}d.example"
        results.append(f"{domain}/{n:0{length - len(domain) - 1}}")
    assert {len(name) for name in results} == {length}
    return results


@pytest.mark.parametrize(("number", "length"), [(1, 23), (300, 23), (7000, 23), (5500, 40), (1200, 200)])
def test_all_published_resources_are_kept(write_zeros: Write, number: int, length: int) -> None:
    """An API server limits the cost of a policy, and the size of annotations."""
    published = dict.fromkeys(names(number, length), 4)
    assert set(write_zeros(COMPACT(published), published).values()) == {"4"}


@pytest.mark.parametrize("form", [COMPACT, json.dumps, partial(json.dumps, indent=2)], ids=["ours", "spaces", "lines"])
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

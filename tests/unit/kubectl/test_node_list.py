"""Reading all Nodes, from a fake API server that sends responses which a real one cannot be made to send."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from capacityd.model.errors import NodeError, NodeForbidden, NodeUnreachable
from capacityd.model.node import ANNOTATION, CONDITION, CONFIGURATION_ANNOTATION, Condition
from capacityd.node import client
from kubectl_capacityd.cluster import node_list
from kubectl_capacityd.cluster.documents.node_summary import summarize
from kubectl_capacityd.cluster.node_list import read_fleet
from kubectl_capacityd.cluster.operator_kubeconfig import load_operators
from kubectl_capacityd.model import Fleet, NodeSummary, PodRequests
from tests.support.server import Request, Script, answer, failure, serve
from tests.unit.node.test_api_node import write_kubeconfig

LABEL = "example.com/pool"
DONGLE = "example.com/dongle"
NODE: dict[str, Any] = {
    "metadata": {
        "name": "n1",
        "labels": {LABEL: "a"},
        "annotations": {ANNOTATION: f'{{"{DONGLE}":2000}}', CONFIGURATION_ANNOTATION: "4f1c"},
    },
    "spec": {"unschedulable": True},
    "status": {
        "capacity": {"cpu": "4", DONGLE: "2k", "other.example/card": "1"},
        "allocatable": {"cpu": "4", DONGLE: "1999"},
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T06:00:00Z"},
            {
                "type": CONDITION,
                "status": "False",
                "reason": "Refused",
                "message": "refused: x",
                "lastHeartbeatTime": "2027-01-15T08:00:00Z",
                "lastTransitionTime": "2027-01-15T07:00:00Z",
            },
        ],
    },
}


def page(*items: object, token: str = "", kind: str = "NodeList") -> bytes:
    """A response with a page of a list. token: to request the next page with; "": this is the last page."""
    metadata = {"resourceVersion": "1", **({"continue": token} if token else {})}
    return answer(200, {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": list(items)})


pod_page = partial(page, kind="PodList")


def pod(node: str = "", phase: str = "Running", **spec: Any) -> dict[str, Any]:
    """A pod that requests two dongles, on this Node or on none."""
    container = {"name": "c", "resources": {"requests": {DONGLE: "2", "cpu": "100m"}}}
    return {
        "spec": {"containers": [container], **({"nodeName": node} if node else {}), **spec},
        "status": {"phase": phase},
    }


def named(*names: str) -> list[dict[str, Any]]:
    """Nodes with these names, without anything else."""
    return [{"metadata": {"name": name}} for name in names]


def query(request: Request) -> dict[str, str]:
    """The parameters in the request's URL."""
    return {name: value for name, [value] in parse_qs(urlsplit(request.path).query).items()}


def serving(nodes: Script | None = None, pods: Script | None = None, classes: Script | None = None) -> Script:
    """A script with a response to each kind of list. Default: one Node; the other lists are denied or missing."""
    scripts = {
        "/api/v1/nodes": nodes or (lambda _: page(NODE)),
        "/api/v1/pods": pods or (lambda _: failure(403)),
        "/apis/resource.k8s.io/v1/deviceclasses": classes or (lambda _: failure(404)),
    }
    return lambda request: scripts[urlsplit(request.path).path](request)


def read(folder: Path, script: Script, *, only_nodes: bool = False) -> tuple[Fleet, list[Request]]:
    """Reads the fleet from a server that follows the script. Returns the fleet and the requests."""
    with serve(script) as server:
        path = folder / "config"
        write_kubeconfig(path, server.url, "secret-token")
        access = load_operators(str(path))
        return read_fleet(access, LABEL, "pool in (a,b)", only_nodes=only_nodes), server.received


def names_of(fleet: Fleet) -> list[str]:
    return [node.name for node in fleet.nodes]


def test_a_node_is_summarized_with_its_condition_and_annotation(tmp_path: Path) -> None:
    fleet, _ = read(tmp_path, serving())
    condition = Condition("False", "Refused", "refused: x", 1_800_000_000.0, "2027-01-15T07:00:00Z")
    assert fleet.nodes == (
        NodeSummary(
            "n1",
            label_value="a",
            capacity={DONGLE: 2000, "other.example/card": 1},
            allocatable={DONGLE: 1999},
            published={DONGLE: 2000},
            configuration="4f1c",
            condition=condition,
            condition_since=1_799_996_400.0,
            ready=True,
            ready_since=1_799_992_800.0,
            cordoned=True,
        ),
    )


def test_pages_follow_each_other(tmp_path: Path) -> None:
    pages = {
        "": page(*named("a", "b"), token="2"),
        "2": page(*named("c"), token="3 &"),  # must be escaped in a URL
        "3 &": page(*named("d")),
    }
    pods = {"": pod_page(pod("n1"), token="2"), "2": pod_page(pod("n1"), pod("n2"))}
    script = serving(
        nodes=lambda request: pages[query(request).get("continue", "")],
        pods=lambda request: pods[query(request).get("continue", "")],
    )
    fleet, received = read(tmp_path, script)
    assert names_of(fleet) == ["a", "b", "c", "d"]
    assert fleet.requests == PodRequests({"n1": {DONGLE: 4}, "n2": {DONGLE: 2}}, {})
    queries = [query(request) for request in received if request.path.startswith("/api/v1/nodes")]
    assert {parameters["labelSelector"] for parameters in queries} == {"pool in (a,b)"}
    assert {parameters["limit"] for parameters in queries} == {"250"}
    assert {request.method for request in received} == {"GET"}
    assert {request.headers["authorization"] for request in received} == {"Bearer secret-token"}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, which take no time."""
    pauses: list[float] = []
    monkeypatch.setattr("kubectl_capacityd.cluster.node_list.time.sleep", pauses.append)
    return pauses


def test_a_request_is_repeated_after_the_pause_in_retry_after(tmp_path: Path, pauses: list[float]) -> None:
    busy = [failure(429, headers="Retry-After: 1\r\n"), failure(503, headers="Retry-After: 600\r\n")]
    fleet, _ = read(tmp_path, serving(lambda _: busy.pop(0) if busy else page(NODE)))
    assert names_of(fleet) == ["n1"]
    assert pauses == [1.0, 10.0]
    pauses.clear()
    with pytest.raises(NodeUnreachable, match="429"):
        read(tmp_path, serving(lambda _: failure(429, headers="Retry-After: 1\r\n")))
    assert len(pauses) == 4


FORBIDDEN = 'nodes is forbidden: User "jane" cannot list resource "nodes"'


@pytest.mark.parametrize(
    ("response", "error", "message"),
    [
        (failure(403, FORBIDDEN), NodeForbidden, 'User "jane" cannot list .* the verb "list" on "nodes"'),
        (answer(200, {"kind": "Node"}), NodeUnreachable, "is not a NodeList"),
        (answer(200, {"kind": "NodeList", "items": 7}), NodeUnreachable, "items is not a list of objects"),
        (answer(200, {"kind": "NodeList", "metadata": {"continue": 7}}), NodeUnreachable, "continue is not text"),
        (page(NODE, token="again"), NodeUnreachable, "repeats a page"),
        (page({**NODE, "spec": 7}), NodeUnreachable, 'API server .* Node "n1": spec is not an object'),
        (page({"metadata": {"name": "n7", "labels": 7}}), NodeUnreachable, 'Node "n7": labels is not'),
    ],
)
@pytest.mark.usefixtures("pauses")
def test_an_unusable_response_names_the_cause(
    tmp_path: Path, response: bytes | None, error: type[NodeError], message: str
) -> None:
    with pytest.raises(error, match=message):
        read(tmp_path, serving(lambda _: response))


@pytest.mark.parametrize("items", [{}, {"items": None}])
def test_a_page_may_have_no_items(tmp_path: Path, items: dict[str, None]) -> None:
    """Go encodes an empty list as null, or omits it."""
    fleet, _ = read(tmp_path, serving(lambda _: answer(200, {"kind": "NodeList", **items})))
    assert fleet == Fleet((), {})


def test_a_page_may_be_larger_than_a_node_and_not_without_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = {**NODE, "x": "x" * client._MAX_RESPONSE_BYTES}
    fleet, _ = read(tmp_path, serving(lambda _: page(large)))
    assert names_of(fleet) == ["n1"]
    monkeypatch.setattr(node_list, "_MAX_PAGE_BYTES", 1000)
    with pytest.raises(NodeUnreachable, match="more than 1000 bytes"):
        read(tmp_path, serving(lambda _: page(large)))


def test_device_classes_are_listed_by_their_extended_resource(tmp_path: Path) -> None:
    classes = [
        {"metadata": {"name": "usb"}, "spec": {"extendedResourceName": DONGLE}},
        {"metadata": {"name": "usb2"}, "spec": {"extendedResourceName": DONGLE}},
        {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}},
        {"metadata": {"name": "plain"}, "spec": {}},
    ]
    response = answer(200, {"kind": "DeviceClassList", "items": classes})
    fleet, _ = read(tmp_path, serving(classes=lambda _: response))
    assert fleet.device_classes == {DONGLE: ("usb", "usb2"), "example.com/gpu": ("gpu",)}


def test_template_needs_no_right_but_to_list_nodes(tmp_path: Path) -> None:
    fleet, received = read(tmp_path, serving(), only_nodes=True)
    assert names_of(fleet) == ["n1"]
    assert [urlsplit(request.path).path for request in received] == ["/api/v1/nodes"]


def test_device_classes_and_pods_are_optional(tmp_path: Path, pauses: list[float]) -> None:
    fleet, _ = read(tmp_path, serving(classes=lambda _: failure(403), pods=lambda _: failure(403)))
    assert (fleet.device_classes, fleet.requests) == ({}, None)
    with pytest.raises(NodeUnreachable, match="500"):
        read(tmp_path, serving(pods=lambda _: failure(500, "broken")))
    assert pauses == [], "the API server does not ask for a repetition"


def test_requests_of_running_and_waiting_pods_are_added_up(tmp_path: Path) -> None:
    pods = [pod("n1"), pod("n1", "Succeeded"), pod("n1"), pod("n2"), pod(), pod(schedulingGates=[{"name": "x"}])]
    fleet, received = read(tmp_path, serving(pods=lambda _: pod_page(*pods)))
    assert fleet.requests == PodRequests({"n1": {DONGLE: 4}, "n2": {DONGLE: 2}}, {DONGLE: 1})
    queries = [query(request) for request in received if request.path.startswith("/api/v1/pods")]
    assert {parameters["limit"] for parameters in queries} == {"500"}
    assert {parameters["fieldSelector"] for parameters in queries} == {"status.phase!=Succeeded,status.phase!=Failed"}


@pytest.mark.parametrize(
    ("annotation", "error"),
    [
        ("{", "it is not a JSON object"),
        ("7", "it is not a JSON object"),
        (f'{{"{DONGLE}": 1, "x": 2, "a.b/c": "3"}}', "not a number of an extended resource: a.b/c, x"),
        (f'{{"{DONGLE}": 1}}', ""),
    ],
)
def test_an_annotation_that_cannot_be_read_is_an_error_of_its_node(annotation: str, error: str) -> None:
    node = {"metadata": {"name": "n1", "annotations": {ANNOTATION: annotation}}}
    assert summarize(node, LABEL).annotation_error == error

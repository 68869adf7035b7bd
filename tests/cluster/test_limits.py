"""capacityd rejects values that Kubernetes can't accept before any request. Values up to the limits work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.node import CONFIGURATION_ANNOTATION
from capacityd.model.quantity import LARGEST_QUANTITY, storable
from tests.cluster.agent import ANNOTATION, DONGLE, Agent
from tests.cluster.api import ApiError
from tests.cluster.controlplane import BASE_CAPACITY, Cluster

pytestmark = pytest.mark.protocol


def test_which_quantities_the_api_server_accepts(cluster: Cluster, node: str) -> None:
    edge = LARGEST_QUANTITY // 1000
    numbers = [0, 1, edge - 1, edge, *(2**n for n in range(52, 63)), LARGEST_QUANTITY - 1, LARGEST_QUANTITY]
    numbers += [edge + 1, edge + 2, *(10**n for n in range(15, 19)), 9 * 10**18, 123_456_789_012_345_678]
    assert {n: taken(cluster, node, n) for n in numbers} == {n: storable(n) for n in numbers}


def test_the_longest_name_and_the_largest_quantity(cluster: Cluster, agent: Agent) -> None:
    domain = ".".join(["a" * 60] * 4)
    names = [f"example.com/{'x' * 63}", f"{domain}/x", "example.com/A_b.C-d", "example.com/~".replace("~", "0"), "x/y"]
    agent.configure("".join(f'[resources."{name}"]\nstatic = {{ quantity = {LARGEST_QUANTITY} }}\n' for name in names))
    agent.run("apply")
    assert cluster.capacity(agent.node) == BASE_CAPACITY | dict.fromkeys(names, str(LARGEST_QUANTITY))
    assert settled(cluster, agent)
    agent.run("withdraw")
    assert cluster.capacity(agent.node) == BASE_CAPACITY


def test_any_notation_of_the_api_server_is_the_same_quantity(cluster: Cluster, agent: Agent) -> None:
    """The API server stores 1000 as "1k", and our guards test for the stored text. 0 is a quantity as well."""
    quantities = [1000, 0, 3000, 10**6, 1024, 2048, 9 * 10**15, 1500]
    names = [f"example.com/x{n}" for n in range(len(quantities))]

    def configure(numbers: list[int]) -> None:
        pairs = zip(names, numbers, strict=True)
        agent.configure("".join(f'[resources."{name}"]\nstatic = {{ quantity = {n} }}\n' for name, n in pairs))

    configure(quantities)
    agent.run("apply")
    assert cluster.capacity(agent.node)["example.com/x0"] == "1k"
    assert settled(cluster, agent)
    configure([7] * len(names))
    agent.run("apply")
    assert cluster.capacity(agent.node) == BASE_CAPACITY | dict.fromkeys(names, "7")


@pytest.mark.parametrize(
    "missing",
    [
        {"capacity": None},
        {"annotations": {"example.com/note": "theirs"}, "capacity": None},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "capacity": None},
        {
            "annotations": {"example.com/note": "theirs"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        },
    ],
    ids=["nothing at all", "no capacity and conditions", "no capacity and annotations", "nothing missing"],
)
def test_a_node_that_lacks_what_we_write_below(cluster: Cluster, tmp_path: Path, missing: dict[str, Any]) -> None:
    node = cluster.create_node(**missing)
    before = cluster.node(node)
    assert ("capacity" in before["status"]) == ("capacity" not in missing)
    assert ("annotations" in before["metadata"]) == ("annotations" in missing)
    assert ("conditions" in before["status"]) == ("status" in missing)
    agent = Agent(cluster, node, tmp_path / "agent")
    agent.run("apply")
    document = cluster.node(node)
    assert document["status"]["capacity"] == {**before["status"].get("capacity", {}), DONGLE: "4"}
    annotations = before["metadata"].get("annotations", {})
    assert document["metadata"]["annotations"].pop(CONFIGURATION_ANNOTATION)
    assert document["metadata"]["annotations"] == {
        **annotations,
        ANNOTATION: json.dumps({DONGLE: 4}, separators=(",", ":")),
    }
    theirs = {c["type"] for c in before["status"].get("conditions", [])}
    assert {c["type"] for c in document["status"]["conditions"]} == theirs | {"CapacityPublished"}
    assert settled(cluster, agent)
    agent.run("withdraw")
    after = cluster.node(node)
    assert after["status"].get("capacity", {}) == before["status"].get("capacity", {})
    assert after["metadata"].get("annotations", {}) == annotations
    assert after["status"].get("conditions", []) == before["status"].get("conditions", [])


def taken(cluster: Cluster, node: str, number: int) -> bool:
    """Whether the API server accepts this number as a quantity."""
    try:
        cluster.set_capacity(node, {"example.com/x": str(number)})
    except ApiError as error:
        if error.status != 422:
            raise
        return False
    return True


def settled(cluster: Cluster, agent: Agent) -> bool:
    """Whether another apply finds nothing to write."""
    with cluster.audit.requests(agent.user) as requests:
        agent.run("apply")
    return not [request for request in requests.writes() if request.resource != "selfsubjectreviews"]

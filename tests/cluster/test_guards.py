"""Other writers between our GET and our PATCH: none of their changes is lost, ours arrive, and the retries end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster import faults
from tests.cluster.agent import ANNOTATION, CONDITION, DONGLE, DONGLES, Agent, our_events
from tests.cluster.controlplane import Cluster
from tests.cluster.proxy import Proxy

OTHER = "example.com/other"
SEATS = '[resources."example.com/seats"]\nstatic = { quantity = 2 }\n'


@pytest.fixture
def agent(cluster: Cluster, proxy: Proxy, node: str, tmp_path: Path) -> Agent:
    """capacityd with a proxy between it and the API server."""
    return Agent(cluster, node, tmp_path / "agent", server=proxy.url)


@pytest.fixture
def published(agent: Agent) -> Agent:
    """capacityd that has published four dongles, of which three are left."""
    agent.run("apply")
    agent.machine.pull("1-4")
    return agent


@contextmanager
def another_writes(
    cluster: Cluster, proxy: Proxy, agent: Agent, change: Callable[[], object], tries: int = 2
) -> Iterator[None]:
    """Another writer makes a change right before our first PATCH. tries: how many PATCHes we then need in all."""
    fault = proxy.fault(faults.before(lambda _: change()), "PATCH", f"/api/v1/nodes/{agent.node}/status")
    with cluster.audit.requests(agent.user) as requests:
        yield
    assert fault.matched, "the other writer was there"
    verbs = [request.verb for request in requests.all() if request.resource == "nodes"]
    assert verbs == ["get", "patch"] * tries


@pytest.mark.protocol
def test_a_key_that_another_writer_creates_first_is_not_overwritten(
    cluster: Cluster, proxy: Proxy, agent: Agent
) -> None:
    agent.configure(DONGLES + SEATS)
    theirs = {"capacity": {DONGLE: "9"}, "conditions": [{"type": "Theirs", "status": "True"}]}
    path = f"/api/v1/nodes/{agent.node}/status"
    with another_writes(cluster, proxy, agent, lambda: cluster.admin.patch(path, {"status": theirs}, "strategic")):
        agent.run("apply", status=4)
    document = cluster.node(agent.node)
    assert document["status"]["capacity"][DONGLE] == "9", "theirs stays"
    assert document["status"]["capacity"]["example.com/seats"] == "2", "ours arrives"
    assert json.loads(document["metadata"]["annotations"][ANNOTATION]) == {"example.com/seats": 2}
    assert {c["type"] for c in document["status"]["conditions"]} == {"Theirs", CONDITION}


@pytest.mark.protocol
@pytest.mark.parametrize(
    ("theirs", "reported"),
    [
        ("9", "9 → 3 (restored: another writer wrote 9); pods that no longer fit"),
        (None, "none → 3 (missing from the Node, although 4 was published)"),
    ],
)
def test_an_own_key_that_another_writer_changes_first_is_planned_again(
    cluster: Cluster, proxy: Proxy, published: Agent, theirs: str | None, reported: str
) -> None:
    with another_writes(cluster, proxy, published, lambda: cluster.set_capacity(published.node, {DONGLE: theirs})):
        published.run("apply")
    assert cluster.capacity(published.node)[DONGLE] == "3"
    [(reason, message)] = our_events(cluster, published.node)[2:]
    assert reason == "CapacityChanged"
    assert message.startswith(f"{DONGLE}: {reported}")


@pytest.mark.protocol
@pytest.mark.parametrize("theirs", [{"capacity": {OTHER: "5"}}, {"conditions": [{"type": "Theirs", "status": "True"}]}])
def test_any_other_change_is_read_first_and_stays(
    cluster: Cluster, proxy: Proxy, published: Agent, theirs: dict[str, object]
) -> None:
    path = f"/api/v1/nodes/{published.node}/status"
    with another_writes(cluster, proxy, published, lambda: cluster.admin.patch(path, {"status": theirs}, "strategic")):
        published.run("apply")
    status = cluster.node(published.node)["status"]
    assert status["capacity"][DONGLE] == "3"
    assert status["capacity"].get(OTHER) == ("5" if "capacity" in theirs else None)
    assert {c["type"] for c in status["conditions"]} == {CONDITION, *(["Theirs"] if "conditions" in theirs else [])}


@pytest.mark.protocol
def test_an_annotation_that_another_writer_changes_first_is_read_again(
    cluster: Cluster, proxy: Proxy, published: Agent
) -> None:
    """A key that only the annotation names, with another number than the Node, is given up."""
    cluster.set_capacity(published.node, {OTHER: "5"})
    record = json.dumps({DONGLE: 4, OTHER: 6})
    with another_writes(cluster, proxy, published, lambda: annotate(cluster, published.node, ANNOTATION, record)):
        published.run("apply")
    document = cluster.node(published.node)
    assert (document["status"]["capacity"][DONGLE], document["status"]["capacity"][OTHER]) == ("3", "5")
    assert json.loads(document["metadata"]["annotations"][ANNOTATION]) == {DONGLE: 3}


def test_an_adopted_key_that_changes_first_is_adopted_all_the_same(
    cluster: Cluster, proxy: Proxy, agent: Agent
) -> None:
    cluster.set_capacity(agent.node, {DONGLE: "4"})
    agent.configure(DONGLES + "adopt = true\n")
    with another_writes(cluster, proxy, agent, lambda: cluster.set_capacity(agent.node, {DONGLE: "9"})):
        agent.run("apply")
    document = cluster.node(agent.node)
    assert document["status"]["capacity"][DONGLE] == "4"
    assert json.loads(document["metadata"]["annotations"][ANNOTATION]) == {DONGLE: 4}


@pytest.mark.protocol
def test_a_node_that_is_replaced_is_not_written(cluster: Cluster, proxy: Proxy, published: Agent) -> None:
    before = cluster.node(published.node)["metadata"]["uid"]

    def change() -> None:
        # The new Node equals the old one in everything that we change; only its uid differs.
        old = cluster.node(published.node)
        cluster.admin.delete(f"/api/v1/nodes/{published.node}")
        cluster.create_node(
            published.node,
            capacity={DONGLE: "4"},
            annotations=old["metadata"]["annotations"],
            status={"conditions": old["status"]["conditions"]},
        )

    with another_writes(cluster, proxy, published, change):
        published.run("apply")
    assert cluster.node(published.node)["metadata"]["uid"] != before
    assert cluster.capacity(published.node)[DONGLE] == "3"


def annotate(cluster: Cluster, node: str, name: str, value: str) -> None:
    cluster.admin.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {name: value}}})

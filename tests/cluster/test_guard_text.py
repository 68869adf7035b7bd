"""The real API server finds our guards equal to the text that it has stored, whatever characters the text has."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from capacityd.model.node import Node
from capacityd.node import open_node
from tests.cluster.agent import ANNOTATION, CONDITION, DONGLE, Agent
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user

_OF_EACH_CATEGORY = {unicodedata.category(c): c for c in map(chr, range(0x110000))}
TEXT = "".join(
    [
        *map(chr, range(0x100)),
        "\\u003c &lt; \u2028\u2029 e\u0301 \u202eabc\u202c \u200d\ufeff \ufffe\U0001ffff",
        *(character for category, character in _OF_EACH_CATEGORY.items() if category != "Cs"),
    ]
)


@pytest.fixture
def opened(cluster: Cluster, node: str, tmp_path: Path) -> Node:
    path = tmp_path / "kubeconfig"
    cluster.kubeconfig(node_user(node), path)
    return open_node(str(path), None, "", None)


def store(cluster: Cluster, node: str, text: str) -> None:
    """Writes this text, as another writer, to every place that our guards test."""
    condition = {"type": CONDITION, "status": text, "reason": text, "message": text}
    status = {"conditions": [condition], "capacity": {text: "3", DONGLE: "1000"}}
    cluster.admin.patch(f"/api/v1/nodes/{node}/status", {"status": status})
    cluster.admin.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {ANNOTATION: text}}})


def guarded(opened: Node, key: str) -> list[dict[str, object]]:
    """A patch that guards all of this text, as read from the Node."""
    state = opened.read()
    assert state.condition is not None
    path = "/status/capacity/" + key.replace("~", "~0").replace("/", "~1")
    return [
        {"op": "test", "path": "/metadata/annotations/capacityd~1published", "value": state.annotation},
        {"op": "test", "path": f"/status/conditions/{state.condition.index}", "value": dict(state.condition.document)},
        {"op": "test", "path": path, "value": "3"},
        {"op": "test", "path": "/status/capacity/example.com~1dongle", "value": "1k"},
        {"op": "add", "path": "/status/capacity/example.com~1dongle", "value": "7"},
    ]


@pytest.mark.protocol
def test_a_guard_on_stored_text_holds(cluster: Cluster, node: str, opened: Node) -> None:
    store(cluster, node, TEXT)
    patch = guarded(opened, TEXT)
    assert patch[0]["value"] == TEXT, "it is stored as it was written"
    opened.write(patch)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(text="0/0")
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_a_guard_on_any_text_holds(cluster: Cluster, node: str, opened: Node, text: str) -> None:
    """A text such as 0/0 is the name of an extended resource, whose quantity must be an integer."""
    store(cluster, node, text)
    opened.write(guarded(opened, text))


@pytest.mark.protocol
def test_a_condition_that_has_nothing_but_its_type_and_one_with_more(cluster: Cluster, node: str, opened: Node) -> None:
    """The guard holds, whatever the server stores for missing times and unknown keys."""
    for more in ({}, {"example.com/<é>": "<é>", "observed": {"é": ["<&>"]}}):
        status: dict[str, Any] = {"conditions": [{"type": CONDITION, "status": "", **more}]}
        cluster.admin.patch(f"/api/v1/nodes/{node}/status", {"status": status})
        cluster.set_capacity(node, {DONGLE: "1000"})
        state = opened.read()
        assert state.condition is not None
        patch = [
            {"op": "test", "path": f"/status/conditions/{state.condition.index}", "value": state.condition.document}
        ]
        opened.write([*patch, {"op": "add", "path": "/status/capacity/example.com~1dongle", "value": "7"}])
        assert cluster.capacity(node)[DONGLE] == "7"


@pytest.mark.protocol
def test_one_character_stops_nothing(cluster: Cluster, node: str, agent: Agent) -> None:
    store(cluster, node, '{"é<\b": "\u2028"}')
    cluster.set_capacity(node, {DONGLE: None})
    with cluster.audit.requests(agent.user) as requests:
        agent.run("apply")
    assert [r.code for r in requests.all() if r.verb == "patch" and r.resource == "nodes"] == [200]
    document = cluster.node(node)
    assert document["status"]["capacity"][DONGLE] == "4"
    assert json.loads(document["metadata"]["annotations"][ANNOTATION])[DONGLE] == 4
    agent.run("withdraw")
    assert DONGLE not in cluster.capacity(node)

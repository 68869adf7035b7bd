"""The real API server compares our guards with what it has stored, whatever characters are in it."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from capacityd.model.errors import NodeConflict
from capacityd.model.node import Node
from capacityd.node import open_node
from tests.cluster.agent import ANNOTATION, CONDITION, DONGLE, Agent
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user

CLASSES = {
    "controls": "".join(map(chr, range(0x20))),
    "short-escapes": "\b\f\n\r\t",
    "ascii": "".join(map(chr, range(0x20, 0x7F))),
    "quotes-and-slashes": '"\'`\\/\\\\"',
    "what-looks-like-an-escape": "\\u003c \\b \\n %3C &lt;",
    "html": "<b>&amp;</b>",
    "delete-and-c1": "".join(map(chr, range(0x7F, 0xA0))),
    "latin": "éÄßøŁ\xa0\xad",
    "combining": "e\u0301 \u1100\u1161\u11a8 \u0e33",
    "cjk": "日本語 한국어 汉字",
    "right-to-left": "עברית \u202eabc\u202c \u2066\u2069 \u200f\u061c",
    "joiners": "\u200b\u200c\u200d\u2060\ufeff",
    "line-separators": "a\u2028b\u2029c\x85d",
    "replacement": "\ufffd",
    "private-use": "\ue000\uf8ff\U000f0000\U0010fffd",
    "noncharacters": "\ufdd0\ufffe\uffff\U0001ffff\U0010ffff",
    "astral": "😀👩\u200d👧🇩🇪\U00010348\U000e0041",
    "unassigned": "\u0378\U000e0fff",
    "one-of-each-category": "".join(
        {unicodedata.category(c): c for c in map(chr, range(0x110000)) if not "\ud800" <= c <= "\udfff"}.values()
    ),
}


@pytest.fixture
def opened(cluster: Cluster, node: str, tmp_path: Path) -> Node:
    path = tmp_path / "kubeconfig"
    cluster.kubeconfig(node_user(node), path)
    return open_node(str(path), None, "", None)


def store(cluster: Cluster, node: str, text: str, quantity: str = "1500m") -> None:
    """Somebody else writes this text wherever there is text that we guard."""
    condition = {"type": CONDITION, "status": text, "reason": text, "message": text}
    status = {"conditions": [condition], "capacity": {text: quantity, DONGLE: "1000"}}
    cluster.admin.patch(f"/api/v1/nodes/{node}/status", {"status": status})
    cluster.admin.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {ANNOTATION: text}}})


def guarded(opened: Node, key: str, quantity: str) -> list[dict[str, object]]:
    """A patch that guards all of it, as it is read."""
    state = opened.read()
    assert state.condition is not None
    path = "/status/capacity/" + key.replace("~", "~0").replace("/", "~1")
    return [
        {"op": "test", "path": "/metadata/annotations/capacityd~1published", "value": state.annotation},
        {"op": "test", "path": f"/status/conditions/{state.condition.index}", "value": dict(state.condition.stored)},
        {"op": "test", "path": path, "value": quantity},
        {"op": "test", "path": "/status/capacity/example.com~1dongle", "value": "1k"},
        {"op": "add", "path": "/status/capacity/example.com~1dongle", "value": "7"},
    ]


@pytest.mark.protocol
@pytest.mark.parametrize("name", CLASSES)
def test_a_guard_on_stored_text_holds(cluster: Cluster, node: str, opened: Node, name: str) -> None:
    text = CLASSES[name]
    store(cluster, node, text)
    patch = guarded(opened, text, "1500m")
    assert patch[0]["value"] == text, "it is stored as it was written"
    assert opened.write(patch).capacity is not None
    assert cluster.capacity(node)[DONGLE] == "7"


@pytest.mark.parametrize("name", CLASSES)
def test_a_guard_on_other_text_does_not(cluster: Cluster, node: str, opened: Node, name: str) -> None:
    """Of the annotation, and of the condition."""
    store(cluster, node, CLASSES[name])
    patch = guarded(opened, CLASSES[name], "1500m")
    store(cluster, node, CLASSES[name] + "x")
    for guard in patch[:2]:
        with pytest.raises(NodeConflict):
            opened.write([guard, patch[-1]])
    assert cluster.capacity(node)[DONGLE] == "1k"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(text="0/0")
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_any_text(cluster: Cluster, node: str, opened: Node, text: str) -> None:
    """A text may be the name of an extended resource, such as 0/0, and then the quantity must be an integer."""
    store(cluster, node, text, "3")
    opened.write(guarded(opened, text, "3"))


@pytest.mark.protocol
def test_a_condition_that_has_nothing_but_its_type_and_one_with_more(cluster: Cluster, node: str, opened: Node) -> None:
    """How the server stores missing times, and keys that it does not know."""
    for more in ({}, {"example.com/<é>": "<é>", "observed": {"é": ["<&>"]}}):
        status: dict[str, Any] = {"conditions": [{"type": CONDITION, "status": "", **more}], "capacity": {"é": "1500m"}}
        cluster.admin.patch(f"/api/v1/nodes/{node}/status", {"status": status | {"capacity": {"é": "1500m"}}})
        cluster.set_capacity(node, {DONGLE: "1000"})
        state = opened.read()
        assert state.condition is not None
        patch = [{"op": "test", "path": f"/status/conditions/{state.condition.index}", "value": state.condition.stored}]
        opened.write([*patch, {"op": "add", "path": "/status/capacity/example.com~1dongle", "value": "7"}])
        assert cluster.capacity(node)[DONGLE] == "7"


@pytest.mark.protocol
def test_a_guard_on_a_quantity(cluster: Cluster, node: str, opened: Node) -> None:
    """A quantity is of letters, digits, points and signs, so there is nothing in it that would have to be escaped."""
    for spelt, stored in {"1e3": "1e3", "+4": "+4", "1000": "1k", "0.5Ki": "512", "3000m": "3"}.items():
        cluster.set_capacity(node, {DONGLE: spelt})
        assert cluster.capacity(node)[DONGLE] == stored
        opened.write([{"op": "test", "path": "/status/capacity/example.com~1dongle", "value": stored}])


@pytest.mark.protocol
def test_one_character_stops_nothing(cluster: Cluster, node: str, agent: Agent) -> None:
    store(cluster, node, '{"é<\b": "\u2028"}')
    cluster.set_capacity(node, {DONGLE: None})
    with cluster.audit.requests(agent.user) as requests:
        agent.run("apply")
    assert [r.code for r in requests.all() if r.verb == "patch" and r.resource == "nodes"] == [200]
    document = cluster.node(node)
    assert (
        document["status"]["capacity"][DONGLE],
        json.loads(document["metadata"]["annotations"][ANNOTATION])[DONGLE],
    ) == (
        "4",
        4,
    )
    agent.run("withdraw")
    assert DONGLE not in cluster.capacity(node)

"""Lists of Nodes that kubectl has saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.errors import UsageError
from kubectl_capacityd.cluster.fleet_file import read_fleet_file
from kubectl_capacityd.model import PodRequests
from tests.unit.kubectl.test_node_list import DONGLE, LABEL, NODE, pod

CLASS = {"kind": "DeviceClass", "metadata": {"name": "usb"}, "spec": {"extendedResourceName": DONGLE}}


def node(name: str, heartbeat: str | None = None) -> dict[str, Any]:
    """A Node as kubectl saves it. heartbeat: of the condition Ready."""
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
    return {**NODE, "kind": "Node", "metadata": {**NODE["metadata"], "name": name}, "status": {"conditions": [ready]}}


def saved(folder: Path, document: object) -> str:
    path = folder / "nodes.json"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize("kind", ["List", "NodeList", "Node"])
def test_a_list_of_nodes_or_a_single_one_is_read(tmp_path: Path, kind: str) -> None:
    item = {key: value for key, value in node("n1").items() if kind != "NodeList" or key != "kind"}
    document = item if kind == "Node" else {"kind": kind, "items": [item]}
    fleet = read_fleet_file(saved(tmp_path, document), LABEL)
    assert [(n.name, n.label_value, n.published) for n in fleet.nodes] == [("n1", "a", {DONGLE: 2000})]
    assert fleet.requests is None


def test_pods_and_device_classes_are_read(tmp_path: Path) -> None:
    pods = [{**entry, "kind": "Pod"} for entry in (pod("n1"), pod(), pod("n1", phase="Failed"))]
    fleet = read_fleet_file(saved(tmp_path, {"kind": "List", "items": [node("n1"), CLASS, *pods]}), LABEL)
    assert fleet.requests == PodRequests({"n1": {DONGLE: 2}}, {DONGLE: 1})
    assert fleet.device_classes == {DONGLE: ("usb",)}


def test_the_time_of_a_saved_list_is_that_of_most_heartbeats(tmp_path: Path) -> None:
    """A Node that has been silent for a year, whose clock is ahead, or without a heartbeat does not change the time."""
    times = ["2026-01-15T08:00:00Z", "2027-01-15T07:58:00Z", "2027-01-15T08:00:00Z", "2027-01-16T08:00:00Z", None]
    items = [node(f"n{number}", time) for number, time in enumerate(times)]
    assert read_fleet_file(saved(tmp_path, {"kind": "List", "items": items}), LABEL).read_at == 1_800_000_000.0
    assert read_fleet_file(saved(tmp_path, {"kind": "List", "items": items[-1:]}), LABEL).read_at is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON .*kubectl get nodes -o json"),
        ("[]", "it is not a list of Nodes, .*kubectl get nodes -o json"),
        ('{"kind": "List", "items": [7]}', "items is not a list"),
        ('{"kind": "List"}', "no Nodes in this list"),
        ('{"kind": "PodList", "items": [{}]}', "no Nodes in this list: .*kubectl get nodes -o json"),
        ('{"kind": "List", "items": [{"kind": "Node"}]}', "metadata.name is missing"),
    ],
)
def test_what_is_no_list_of_nodes_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"{path}.*{message}"):
        read_fleet_file(str(path), LABEL)

"""`fleet` with a saved list of Nodes in which one value, whichever it is, is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from kubectl_capacityd.__main__ import run
from tests.support.damage import damaged, replaced
from tests.support.terminals import executed
from tests.unit.kubectl.test_fleet_file import CLASS
from tests.unit.kubectl.test_node_list import DONGLE, LABEL, NODE

REQUESTS = {"resources": {"requests": {DONGLE: "1", "cpu": "1"}}}
POD = {
    "kind": "Pod",
    "metadata": {"namespace": "default", "name": "p1"},
    "spec": {
        "nodeName": "n1",
        "containers": [REQUESTS],
        "initContainers": [{**REQUESTS, "restartPolicy": "Always"}],
        "overhead": {DONGLE: "1"},
        "schedulingGates": [],
    },
    "status": {"phase": "Running"},
}
OTHER = {"kind": "Node", **NODE, "metadata": {"name": "n2", "labels": {LABEL: "a"}}}
LIST: dict[str, Any] = {"kind": "List", "items": [{"kind": "Node", **NODE}, POD, CLASS, OTHER]}


@given(damaged(LIST))
def test_fleet_names_the_file_or_counts(tmp_path_factory: pytest.TempPathFactory, document: Any) -> None:
    file = tmp_path_factory.getbasetemp() / "nodes.json"
    file.write_text(json.dumps(document))
    status, out, err = executed(run, "fleet", "--by", LABEL, "--nodes", "--node-file", str(file))
    assert status in (0, 2, 4)
    if status == 2:
        assert err.startswith(f"capacityd: {file}: ")
        assert out == ""


@pytest.mark.parametrize(
    ("index", "path", "message"),  # the index of the object in LIST, the path of the field, and the error
    [
        (0, ("metadata", "labels"), 'Node "n1": labels is not an object'),
        (0, ("metadata", "labels", LABEL), f'Node "n1": {LABEL} is not text'),
        (0, ("status", "conditions"), 'Node "n1": conditions is not a list of objects'),
        (1, ("spec", "containers"), 'Pod "default/p1": containers is not a list of objects'),
        (1, ("metadata",), None),  # a pod's metadata are not needed
        (2, ("spec", "extendedResourceName"), 'DeviceClass "usb": extendedResourceName is not text'),
    ],
)
def test_fleet_names_the_object_and_the_field(
    tmp_path: Path, index: int, path: tuple[str, ...], message: str | None
) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(replaced(LIST, ("items", index, *path), 7)))
    status, _, err = executed(run, "fleet", "--by", LABEL, "--node-file", str(file))
    assert (status == 2) is (message is not None)
    assert err == (f"capacityd: {file}: {message}\n" if message else "")

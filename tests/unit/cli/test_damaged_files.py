"""The commands with a saved list of Nodes, and with a Node in a file, in which any one value is damaged."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from capacityd.cli import run
from tests.support.damage import damaged, replaced
from tests.support.nodes import node
from tests.unit.node.test_fleet_file import CLASS
from tests.unit.node.test_node_list import DONGLE, LABEL, NODE

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
RESOURCE = f'[resources."{DONGLE}"]\nstatic = {{ quantity = 2 }}\n'
"""Its quantity differs from the Node's, so that a command writes it."""


def executed(*arguments: str) -> tuple[int, str, str]:
    """The exit status, the output and the errors of a command. Both texts must be printable."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = run([*arguments])
    assert (out.getvalue() + err.getvalue()).replace("\n", "").isprintable()
    return status, out.getvalue(), err.getvalue()


@given(damaged(LIST))
def test_fleet_names_the_file_or_counts(tmp_path_factory: pytest.TempPathFactory, document: Any) -> None:
    file = tmp_path_factory.getbasetemp() / "nodes.json"
    file.write_text(json.dumps(document))
    status, out, err = executed("fleet", "--by", LABEL, "--nodes", "--node-file", str(file))
    assert status in (0, 2, 4)
    if status == 2:
        assert err.startswith(f"capacityd: {file}: ")
        assert out == ""


@pytest.mark.parametrize(
    ("index", "path", "message"),
    [
        (0, ("metadata", "labels"), 'Node "n1": metadata.labels is not a JSON object'),
        (0, ("metadata", "labels", LABEL), f'Node "n1": label {LABEL} is not text'),
        (0, ("status", "conditions"), 'Node "n1": status.conditions is not a list of JSON objects'),
        (1, ("spec", "containers"), 'Pod "default/p1": spec.containers is not a list of JSON objects'),
        (1, ("metadata",), None),
        (2, ("spec", "extendedResourceName"), 'DeviceClass "usb": spec.extendedResourceName is not text'),
    ],
)
def test_fleet_names_the_object_and_the_field(
    tmp_path: Path, index: int, path: tuple[str, ...], message: str | None
) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(replaced(LIST, ("items", index, *path), 7)))
    status, _, err = executed("fleet", "--by", LABEL, "--node-file", str(file))
    expected = "" if message is None else f"capacityd: {file}: {message}\n"
    assert (status == 2, err) == (message is not None, expected)


@given(damaged(node({"cpu": "4", DONGLE: "1"}, {DONGLE: 1}, "True")))
def test_apply_names_the_file_or_writes_once(tmp_path_factory: pytest.TempPathFactory, document: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    file, config = folder / "node.json", folder / "dongle.toml"
    content = json.dumps(document)
    file.write_text(content)
    config.write_text(RESOURCE)
    command = ("apply", "--config", str(config), "--node-file", str(file))
    status, _, err = executed(*command)
    assert status in (0, 2, 4)
    if status == 2:
        assert err.startswith(f"capacityd: {file}: ")
        assert file.read_text() == content
    else:
        written = file.read_text()
        assert executed(*command)[0] == status
        assert file.read_text() == written

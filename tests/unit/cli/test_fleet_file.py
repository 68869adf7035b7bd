"""The command fleet with a saved list of which any value is damaged."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.cli import run
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


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of each value below this one."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from paths(child, (*path, key))


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "n1", "\x1b[31m", "1e9"])
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from(["name", "\x1b", DONGLE]), SCALARS)


@given(st.sampled_from([*paths(LIST)]), VALUES)
def test_any_damage_is_named_or_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, path: tuple[str | int, ...], value: object
) -> None:
    document = copy.deepcopy(LIST)
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    file = tmp_path_factory.getbasetemp() / "nodes.json"
    file.write_text(json.dumps(document))
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = run(["fleet", "--by", LABEL, "--nodes", "--node-file", str(file)])
    assert status in (0, 2, 4)
    assert (out.getvalue() + err.getvalue()).replace("\n", "").isprintable()
    if status == 2:
        assert err.getvalue().startswith(f"capacityd: {file}: ")
        assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("index", "path", "message"),
    [
        (0, ("metadata", "labels"), 'Node "n1": metadata.labels is not a JSON object'),
        (0, ("metadata", "labels", LABEL), f'Node "n1": label {LABEL} is not text'),
        (0, ("spec",), 'Node "n1": spec is not a JSON object'),
        (0, ("status", "conditions"), 'Node "n1": status.conditions is not a list of JSON objects'),
        (1, ("spec",), 'Pod "default/p1": spec is not a JSON object'),
        (1, ("spec", "containers"), 'Pod "default/p1": spec.containers is not a list of JSON objects'),
        (1, ("spec", "nodeName"), 'Pod "default/p1": spec.nodeName is not text'),
        (1, ("metadata",), None),
        (2, ("spec", "extendedResourceName"), 'DeviceClass "usb": spec.extendedResourceName is not text'),
        (2, ("metadata",), "DeviceClass: metadata is not a JSON object"),
    ],
)
def test_the_object_and_the_field_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], index: int, path: tuple[str, ...], message: str | None
) -> None:
    document = copy.deepcopy(LIST)
    parent = document["items"][index]
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = 7
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(document))
    status = run(["fleet", "--by", LABEL, "--node-file", str(file)])
    expected = "" if message is None else f"capacityd: {file}: {message}\n"
    assert (status == 2, capsys.readouterr().err) == (message is not None, expected)

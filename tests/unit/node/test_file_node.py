"""A Node in a file: patches apply as on the API server, completely or not at all."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from capacityd.model.errors import NodeConflict, NodeError, UsageError
from capacityd.model.node import ANNOTATION, CONDITION, Condition, Event, Patch
from capacityd.node import open_node_file
from capacityd.node.file_node import FileNode
from tests.support.nodes import UID, node

X = "example.com/x"
PATCH = Patch(UID, "7", capacity={X: 4}, allocatable={X: 4}, annotations={ANNOTATION: "{}"})


def written(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "node.json", node(capacity={"cpu": "4"}))


def test_a_patch_is_written(file: Path) -> None:
    file.chmod(0o640)
    opened = open_node_file(str(file))
    state = opened.write(PATCH)
    assert (state.capacity, state.annotation) == ({"cpu": "4", X: "4"}, "{}")
    assert opened.read() == state
    opened.report(Event("Normal", "Reason", "message"), state)
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(file.parent) == ["node.json"]


def test_null_removes_and_other_conditions_stay(file: Path) -> None:
    opened = FileNode(str(file))
    opened.write(Patch(UID, "7", labels={X: 4}, condition=Condition("True", "Published", "fine", 1.0)))
    patch = Patch(
        UID,
        "7",
        capacity={"cpu": None, "absent": None},
        labels={X: None},
        annotations={"theirs": None},
        removes_conditions=True,
    )
    opened.write(patch)
    document = json.loads(file.read_text())
    assert document["status"]["capacity"] == {}
    assert (document["metadata"]["labels"], document["metadata"]["annotations"]) == ({}, {})
    assert [condition["type"] for condition in document["status"]["conditions"]] == ["Ready"]


def test_several_conditions_of_the_type_become_one(tmp_path: Path) -> None:
    document = node(condition="False")
    document["status"]["conditions"] *= 2
    file = written(tmp_path / "node.json", document)
    condition = Condition("True", "Published", "fine", 1.0)
    state = FileNode(str(file)).write(Patch(UID, "7", removes_conditions=True, condition=condition))
    assert [stored.says(condition) for stored in state.conditions] == [True]
    types = [stored["type"] for stored in json.loads(file.read_text())["status"]["conditions"]]
    assert types == ["Ready", "Ready", CONDITION]


def test_a_symbolic_link_is_kept(file: Path) -> None:
    link = file.with_name("link.json")
    link.symlink_to(file)
    FileNode(str(link)).write(PATCH)
    assert link.is_symlink()
    assert json.loads(file.read_text())["status"]["capacity"][X] == "4"


@pytest.mark.parametrize(("uid", "version"), [(UID, "6"), ("another", "7"), (UID, "")])
def test_a_conflict_writes_nothing(file: Path, uid: str, version: str) -> None:
    before = file.read_bytes()
    with pytest.raises(NodeConflict, match="has changed since it was read"):
        FileNode(str(file)).write(Patch(uid, version, capacity={X: 4}))
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == ["node.json"]


def test_a_node_without_a_status_and_a_version_can_be_written(tmp_path: Path) -> None:
    file = written(tmp_path / "node.json", {"kind": "Node", "metadata": {"name": "n1"}, "status": None})
    state = FileNode(str(file)).write(Patch("", "", capacity={X: 1}))
    assert (state.capacity, state.annotation) == ({X: "1"}, None)


def test_standard_input_is_read_once_and_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(node()).encode())))
    opened = FileNode("-")
    assert opened.read() == opened.read()
    assert opened.identify() == "n1"
    with pytest.raises(UsageError):
        opened.write(PATCH)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: did the command fail"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "it is not a JSON object"),
        (b'{"kind": "Pod"}', "its kind is missing, or another one"),
    ],
)
def test_a_file_that_is_no_node_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "node\x1b.json"
    file.write_bytes(content)
    for use in (lambda node: node.read(), lambda node: node.write(PATCH)):
        with pytest.raises(NodeError) as raised:
            use(FileNode(str(file)))
        assert message in str(raised.value)
        assert "node\\x1b.json" in str(raised.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"none\.json cannot be read: No such file"):
        FileNode(str(tmp_path / "none.json")).read()


def test_a_full_disk_is_an_error_and_keeps_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = file.read_bytes()
    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(NodeError, match="cannot be written: No space left"):
        FileNode(str(file)).write(PATCH)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == ["node.json"]

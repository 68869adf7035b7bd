"""A Node in a file: patches apply as on the API server, completely or not at all."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from capacityd.model.errors import NodeConflict, NodeError, UsageError
from capacityd.model.node import ANNOTATION, CONDITION, Condition, Patch
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


def test_a_patch_keeps_the_files_mode_and_a_symbolic_link_to_it(file: Path, tmp_path: Path) -> None:
    file.chmod(0o640)
    (tmp_path / "link").symlink_to(file)
    state = FileNode(str(tmp_path / "link")).write(PATCH)
    assert (state.capacity, state.annotation) == ({"cpu": "4", X: "4"}, "{}")
    assert FileNode(str(file)).read() == state
    assert file.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link", "node.json"]


def test_a_patch_removes_names_and_all_conditions_of_its_type(tmp_path: Path) -> None:
    document = node(capacity={"cpu": "4"}, condition="False")
    document["status"]["conditions"] *= 2  # each condition twice
    document["metadata"] |= {"labels": {X: "4", "theirs": "x"}, "annotations": {"old": "x"}}
    file = written(tmp_path / "node.json", document)
    removals = {"capacity": {"cpu": None, "absent": None}, "labels": {X: None}, "annotations": {"old": None}}
    condition = Condition("True", "Published", "fine", 1.0)
    state = FileNode(str(file)).write(Patch(UID, "7", **removals, removes_conditions=True, condition=condition))
    assert [stored.equals_apart_from_times(condition) for stored in state.conditions] == [True]
    document = json.loads(file.read_text())
    assert (document["metadata"]["labels"], document["metadata"]["annotations"]) == ({"theirs": "x"}, {})
    assert document["status"]["capacity"] == {}
    assert [stored["type"] for stored in document["status"]["conditions"]] == ["Ready", "Ready", CONDITION]
    FileNode(str(file)).write(Patch(UID, "7", removes_conditions=True))
    assert FileNode(str(file)).read().conditions == ()


@pytest.mark.parametrize(("uid", "version"), [(UID, "6"), ("another", "7"), (UID, "")])
def test_a_conflict_writes_nothing(file: Path, uid: str, version: str) -> None:
    before = file.read_bytes()
    with pytest.raises(NodeConflict, match="has changed since it was read"):
        FileNode(str(file)).write(Patch(uid, version, capacity={X: 4}))
    assert file.read_bytes() == before


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
        (None, " cannot be read: No such file"),
        (b"", " is empty: did the command fail"),
        (b"{", " is not JSON (Expecting property name"),
        (b"\xff\xfe\x00", " is not JSON (not text"),
        (b"[" * 100_000, " is not JSON (not text, or nested too deeply)"),
        (b"[]", ": this is not a Node; save a Node with `kubectl"),
        (b'{"kind": "Pod"}', ": this is not a Node; save a Node with `kubectl"),
    ],
)
def test_a_file_that_is_no_node_is_an_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "node\x1b.json"
    if content is not None:
        file.write_bytes(content)
    for use in (lambda node: node.read(), lambda node: node.write(PATCH)):
        with pytest.raises(NodeError) as raised:
            use(FileNode(str(file)))
        assert f"node\\x1b.json{message}" in str(raised.value)


def test_a_full_disk_is_an_error_and_keeps_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = file.read_bytes()
    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(NodeError, match="cannot be written: No space left"):
        FileNode(str(file)).write(PATCH)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == ["node.json"]

"""A Node in a file: patches apply as on the API server, completely or not at all."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from capacityd.model.errors import NodeConflict, NodeError, NodeRejected, UsageError
from capacityd.model.node import ANNOTATION, Event
from capacityd.node import open_node_file
from capacityd.node.documents.json_patch import patched
from capacityd.node.file_node import FileNode
from tests.support.nodes import node

KEY = "/status/capacity/example.com~1x"
RECORD = "/metadata/annotations/" + ANNOTATION.replace("/", "~1")


def check(path: str, value: object) -> dict[str, object]:
    return {"op": "test", "path": path, "value": value}


def add(path: str, value: object) -> dict[str, object]:
    return {"op": "add", "path": path, "value": value}


def written(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "node.json", node(capacity={"cpu": "4"}))


def test_a_patch_is_written(file: Path) -> None:
    file.chmod(0o640)
    opened = open_node_file(str(file))
    state = opened.write([check(KEY, None), add(KEY, "4"), check(RECORD, None), add(RECORD, "{}")])
    assert (state.capacity, state.annotation) == ({"cpu": "4", "example.com/x": "4"}, "{}")
    assert opened.read() == state
    opened.report(Event("Normal", "Reason", "message"), state)
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(file.parent) == ["node.json"]


def test_a_symbolic_link_is_kept(file: Path) -> None:
    link = file.with_name("link.json")
    link.symlink_to(file)
    FileNode(str(link)).write([add(KEY, "4")])
    assert link.is_symlink()
    assert json.loads(file.read_text())["status"]["capacity"]["example.com/x"] == "4"


@pytest.mark.parametrize(
    "patch",
    [
        [add(KEY, "4"), check("/status/capacity/cpu", None)],
        [add(KEY, "4"), check("/status/capacity/cpu", "5")],
        [add(KEY, "4"), check("/status/nowhere/cpu", None)],
        [add(KEY, "4"), check("/status/conditions/0", None)],
        [add(KEY, "4"), check("", None)],
        [add(KEY, "4"), {"op": "remove", "path": "/status/capacity/absent"}],
        [add(KEY, "4"), add("/metadata/name/x", "1")],
    ],
)
def test_a_conflict_writes_nothing(file: Path, patch: list[dict[str, object]]) -> None:
    before = file.read_bytes()
    with pytest.raises(NodeConflict, match="has changed since it was read"):
        FileNode(str(file)).write(patch)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == ["node.json"]


def test_an_invalid_patch_is_rejected() -> None:
    with pytest.raises(NodeRejected):
        patched(node(), [{"op": "frobnicate", "path": "/x"}])


def test_a_test_for_null_fails_below_a_parent_that_is_missing() -> None:
    document = node()
    del document["metadata"]["annotations"]
    del document["status"]["capacity"]
    with pytest.raises(NodeConflict):
        patched(document, [check(RECORD, None)])
    after = patched(document, [check("/status/capacity", None), add("/status/capacity", {"example.com/x": "1"})])
    assert after["status"]["capacity"] == {"example.com/x": "1"}
    assert "capacity" not in document["status"]


def test_a_node_without_a_status_can_be_written(tmp_path: Path) -> None:
    file = written(tmp_path / "node.json", {"kind": "Node", "metadata": {"name": "n1"}, "status": None})
    opened = FileNode(str(file))
    patch = [check("/status/capacity", None), add("/status/capacity", {"example.com/x": "1"})]
    assert opened.write(patch).capacity == {"example.com/x": "1"}


def test_standard_input_is_read_once_and_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(node()).encode())))
    opened = FileNode("-")
    assert opened.read() == opened.read()
    assert opened.name == "n1"
    with pytest.raises(UsageError):
        opened.write([add(KEY, "4")])


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
    for use in (lambda node: node.read(), lambda node: node.write([])):
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
    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(NodeError, match="cannot be written: No space left"):
        FileNode(str(file)).write([add(KEY, "4")])
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == ["node.json"]

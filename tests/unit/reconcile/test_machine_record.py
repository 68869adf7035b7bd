"""The machine record, which lists what this machine has published: the file is complete at any time, or missing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from capacityd.model.errors import StateError
from capacityd.model.plan import MachineRecord, Plan, Reported, Write
from capacityd.reconcile import machine_record

A, B = "example.com/a", "example.com/b"


def plan(recorded: dict[str, int] | None, before: dict[str, int] | None = None) -> Plan:
    return Plan("n1", (), Write((), {}, recorded=recorded), confirmed_record=MachineRecord(before or {}))


@pytest.mark.parametrize(
    "content",
    [
        *("", "{}", '{"published": {"a": 4}}', '{"intended": {"a": 4}}'),
        *('{"published": {"a": "4"}, "intended": {}}', '{"published": {"a": 4.0}, "intended": {}}'),
        '{"published": {"a": 4}, "intended": {}, "checksum": "00000000"}',
    ],
)
def test_a_damaged_record_is_missing(tmp_path: Path, content: str) -> None:
    """Otherwise a damaged number would keep the key refused forever. test_codec.py tests further damage."""
    assert machine_record.read(str(tmp_path)) is None
    (tmp_path / "published.json").write_text(content)
    assert machine_record.read(str(tmp_path)) is None


def test_the_file_is_the_same_for_every_version(tmp_path: Path) -> None:
    """Earlier versions wrote no checksum and ignore it; later versions may add keys."""
    reported = {"refused": [A], "denied": [], "below_expected": [], "configuration": "0a1b2c3d"}
    earlier = {"published": {A: 4}, "intended": {B: 2}, "reported": reported}
    record = MachineRecord({A: 4}, {B: 2}, Reported(refused=frozenset({A}), configuration="0a1b2c3d"))
    file = tmp_path / "published.json"
    for content in (earlier, earlier | {"later": 1, "reported": reported | {"later": []}}):
        file.write_text(json.dumps(content))
        assert machine_record.read(str(tmp_path)) == record
    machine_record.write(str(tmp_path), record)
    assert json.loads(file.read_text()).items() >= (earlier | {"reported": reported | {"unknown": []}}).items()
    file.write_text(json.dumps({"published": {A: 4}, "intended": {}}))
    assert machine_record.read(str(tmp_path)) == MachineRecord({A: 4})


def test_an_unreadable_record_is_not_missing(tmp_path: Path) -> None:
    """Otherwise a manual command would trust the annotation alone. test_atomic_file.py tests other obstacles."""
    (tmp_path / "published.json").mkdir()
    with pytest.raises(StateError, match=r"published\.json could not be read: Is a directory "):
        machine_record.read(str(tmp_path))


def test_a_record_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(StateError, match=r"state/published\.json could not be written: File exists"):
        machine_record.write(str(tmp_path / "state"), MachineRecord({A: 5}))


def test_the_directory_is_the_first_that_systemd_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/x:/var/lib/y")
    assert machine_record.state_directory() == "/var/lib/x"
    monkeypatch.delenv("STATE_DIRECTORY")
    assert machine_record.state_directory() == "/var/lib/capacityd"


def test_the_record_has_both_quantities_before_a_write_and_one_after(tmp_path: Path) -> None:
    directory = str(tmp_path / "made")
    assert machine_record.why_unwritable(directory) == "", "a missing one holds nothing back"
    between = machine_record.intend(directory, None, plan({A: 5, B: 1}, {A: 4}))
    assert between == machine_record.read(directory) == MachineRecord({A: 4}, {A: 5, B: 1})
    assert between.confirms(A, 4)
    assert between.confirms(A, 5)
    assert between.confirms(B, 1)
    assert not between.confirms(B, 4)
    assert not between.has("c")
    machine_record.confirm(directory, plan({A: 5, B: 1}))
    assert machine_record.read(directory) == MachineRecord({A: 5, B: 1})


def test_an_unchanged_record_is_not_written(tmp_path: Path) -> None:
    directory = str(tmp_path)
    record = MachineRecord({A: 4})
    machine_record.write(directory, record)
    file = tmp_path / "published.json"
    with file.open() as before:  # keep it open, so that no later file gets the same inode number
        for recorded in ({A: 4}, None):
            machine_record.intend(directory, record, plan(recorded))
            machine_record.confirm(directory, plan(recorded))
        assert os.path.samestat(os.fstat(before.fileno()), file.stat()), "a write replaces the file"

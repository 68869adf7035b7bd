"""The warnings and notes of `config check`, and the folders that it lists."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from capacityd.cli import run
from capacityd.config import load
from capacityd.model.plan import HOW_TO_WITHDRAW, MachineRecord
from capacityd.reconcile import machine_record
from capacityd.worker import runtime_files
from capacityd.worker.pass_state import PassState
from tests.support.terminals import HEALTHY_NODE

A, B = "example.com/a", "example.com/b"
SOME = f'[resources."{B}"]\nstatic = {{ quantity = 1 }}\n'


@pytest.mark.parametrize(
    ("text", "record", "kept"),
    [
        ("# nothing", MachineRecord({A: 4}, {B: 1}), f"{A}, {B}"),
        ("[service]", MachineRecord({A: 4}), A),
        (SOME, MachineRecord({A: 4}), ""),  # it is removed
        ("# nothing", MachineRecord(), ""),
        ("# nothing", None, ""),
    ],
)
def test_without_a_resource_it_warns_of_what_the_node_keeps(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    record: MachineRecord | None,
    kept: str,
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    if record is not None:
        machine_record.write(str(tmp_path), record)
    (tmp_path / "c.toml").write_text(text)
    assert run(["config", "check", "--config", str(tmp_path / "c.toml")]) == 0
    warning = "warning: no resource is configured, so the Node keeps {}; to remove them: {}\n"
    begin = f"{tmp_path}/published.json: "
    assert capsys.readouterr().err == (begin + warning.format(kept, HOW_TO_WITHDRAW) if kept else "")


@pytest.mark.parametrize(("uid", "warns"), [("uid-1", True), ("uid-2", False)])
def test_a_record_of_an_earlier_node_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], uid: str, warns: bool
) -> None:
    """The Node was deleted and created again."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    machine_record.write(str(tmp_path), MachineRecord({A: 4}, node_uid="uid-1"))
    runtime_files.write_state(str(tmp_path), PassState(replace(HEALTHY_NODE, uid=uid)))
    (tmp_path / "c.toml").write_text("# nothing")
    assert run(["config", "check", "--config", str(tmp_path / "c.toml")]) == 0
    assert ("the Node keeps" in capsys.readouterr().err) is warns


def test_it_lists_the_folders_and_the_file_that_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "1.toml").write_text(SOME)
    (tmp_path / "2.toml").write_text(f"\n{SOME}")
    (tmp_path / ".3.toml").write_text(SOME)
    command = ["config", "check", "--config", str(tmp_path)]
    assert run(command) == 0
    out, err = capsys.readouterr()
    assert out == f"no errors: 1 resource from 2 files\n  {tmp_path}: 1.toml, 2.toml\n"
    assert err.splitlines() == [
        f"{tmp_path}/.3.toml: note: is not read, because its name begins with a dot",
        f'{tmp_path}/2.toml:2: note: [resources."{B}"] replaces the resource in {tmp_path}/1.toml',
    ]
    assert run([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["folders"] == {str(tmp_path): ["1.toml", "2.toml"]}
    assert [note["file"] for note in report["notes"]] == [f"{tmp_path}/.3.toml", f"{tmp_path}/2.toml"]


def test_it_lists_all_folders_if_none_has_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    folders = {"/usr/lib/capacityd/conf.d": None, "/etc/capacityd/conf.d": ()}
    with mock.patch("capacityd.cli.commands.config.load", return_value=replace(load("/dev/null"), folders=folders)):
        assert run(["config", "check"]) == 0
    assert capsys.readouterr().out == (
        "no errors: 0 resources from 0 files\n"
        "  /usr/lib/capacityd/conf.d: no such folder\n  /etc/capacityd/conf.d: no file\n"
    )

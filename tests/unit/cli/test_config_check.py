"""The warning of `config check` about published resources that the configuration no longer contains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capacityd.cli import run
from capacityd.model.plan import HOW_TO_WITHDRAW, MachineRecord
from capacityd.reconcile import machine_record
from capacityd.reconcile.memory import Memory
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
def test_what_the_node_keeps(
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
    runtime_files.write_state(str(tmp_path), PassState(Memory(replace(HEALTHY_NODE, uid=uid))))
    (tmp_path / "c.toml").write_text("# nothing")
    assert run(["config", "check", "--config", str(tmp_path / "c.toml")]) == 0
    assert ("the Node keeps" in capsys.readouterr().err) is warns

"""The warning of `config check` about published resources that the configuration no longer contains."""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.cli import run
from capacityd.model.plan import MachineRecord
from capacityd.reconcile import machine_record

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
    warning = "warning: no resource is configured, so the Node keeps {}; `capacityd withdraw` removes them\n"
    begin = f"{tmp_path}/published.json: "
    assert capsys.readouterr().err == (begin + warning.format(kept) if kept else "")

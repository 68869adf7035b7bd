"""The message of the package's prerm about a Node from which capacityd was not withdrawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.cli import run
from capacityd.model.plan import MachineRecord
from capacityd.node.documents.node import node_state
from capacityd.reconcile import machine_record
from capacityd.worker.pass_state import PassState, PassStatus
from capacityd.worker.runtime_files import write_state
from tests.support.nodes import node, recorded

A, B = "example.com/a", "example.com/b"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (None, ""),
        (recorded(), ""),
        (recorded({A: 4}), "Node n1 keeps 1 resource and the condition CapacityPublished; "),
        (recorded({A: 4}, {A: 4, B: 1}), "Node n1 keeps 2 resources and the condition CapacityPublished; "),
    ],
)
def test_a_removal_says_what_the_node_keeps_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    record: MachineRecord | None,
    expected: str,
) -> None:
    """Without the service's state, the Node's name comes from the configuration."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    if record is not None:
        machine_record.write(str(tmp_path), record)
    (tmp_path / "c.toml").write_text('[kubernetes]\nnode_name = "n7"\n')
    for name in ("n7", "n1"):
        assert run(["leftover", "--config", str(tmp_path / "c.toml")]) == 0
        output = capsys.readouterr().out
        assert output.count("\n") == bool(expected)
        assert output.startswith(f"capacityd: {expected.replace('n1', name)}" if expected else "")
        write_state(str(tmp_path), PassState(node_state(node()), PassStatus(1.0)))

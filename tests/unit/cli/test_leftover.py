"""The message of the package's prerm about a Node from which capacityd was not withdrawn."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from capacityd.cli import run
from tests.support.nodes import node
from tests.support.server import answer, failure, review, serve
from tests.support.terminals import executed
from tests.unit.node.test_credentials import config, written

A, B = "example.com/a", "example.com/b"
KEEPS = "capacityd: Node n1 keeps {}; to remove them: install capacityd again and run `capacityd withdraw`\n"


def leftover(folder: Path, server: str) -> str:
    """What `leftover` prints. The command also removes the metrics file."""
    metrics = folder / "x.prom"
    metrics.write_text("# HELP capacityd_resource_published x\n")
    path = written(folder, config({"server": server}, {"token": "secret"}))
    (folder / "c.toml").write_text(f'[service]\ntextfile = "{metrics}"\n')
    status, out, _ = executed(run, "leftover", f"--config={folder}/c.toml", f"--kubeconfig={path}")
    assert status == 0
    assert not metrics.exists()
    return out


@pytest.mark.parametrize(
    ("annotated", "condition", "expected"),
    [
        (None, None, ""),
        ({A: 4}, None, KEEPS.format("1 resource")),
        (None, "False", KEEPS.format("the condition CapacityPublished")),
        # A label is not counted.
        ({A: 4, f"label {A}": 4, B: 1}, "True", KEEPS.format("2 resources and the condition CapacityPublished")),
    ],
)
def test_a_removal_says_what_the_node_keeps(
    tmp_path: Path, annotated: object, condition: str | None, expected: str
) -> None:
    document = node(annotated=annotated, condition=condition)
    responses = {"GET": answer(200, document), "POST": review("system:node:n1")}
    with serve(lambda request: responses[request.method]) as server:
        assert leftover(tmp_path, server.url) == expected


def test_a_removal_says_if_the_node_could_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(lambda _: failure(401, "Unauthorized")) as server:
        output = leftover(tmp_path, server.url)
    assert "the Node may keep what capacityd has published (the API server" in output
    monkeypatch.setattr("capacityd.cli.commands.leftover._TIMEOUT", 0.2)
    monkeypatch.setattr("capacityd.cli.commands.leftover._leftover_line", lambda _node: time.sleep(3600))
    assert "the API server did not answer within 0.2 s" in leftover(tmp_path, "https://127.0.0.1:1")


def test_a_machine_without_a_kubeconfig_is_no_node(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("")
    output = executed(run, "leftover", f"--config={tmp_path}/c.toml", f"--kubeconfig={tmp_path}/none")
    assert output == (0, "", "")

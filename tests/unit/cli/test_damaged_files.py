"""`apply` with a Node in a file in which one value, whichever it is, is damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from capacityd.cli import run
from tests.support.damage import damaged
from tests.support.nodes import node
from tests.support.terminals import executed

DONGLE = "example.com/dongle"
RESOURCE = f'[resources."{DONGLE}"]\nstatic = {{ quantity = 2 }}\n'
"""Its quantity differs from the Node's, so that `apply` writes it."""


@given(damaged(node({"cpu": "4", DONGLE: "1"}, {DONGLE: 1}, "True")))
def test_apply_names_the_file_or_writes_once(tmp_path_factory: pytest.TempPathFactory, document: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    file, config = folder / "node.json", folder / "dongle.toml"
    content = json.dumps(document)
    file.write_text(content)
    config.write_text(RESOURCE)
    command = ("apply", "--config", str(config), "--node-file", str(file))
    status, _, err = executed(run, *command)
    assert status in (0, 2, 4)
    if status == 2:  # the Node cannot be read
        assert err.startswith(f"capacityd: {file}: ")
        assert file.read_text() == content
    else:
        written = file.read_text()
        assert executed(run, *command)[0] == status
        assert file.read_text() == written

"""A command shows private text to the user who runs it, and not to the readers of the journal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.node.test_credentials import config, written

ADDRESS = "https://me.invalid:6443"


@pytest.mark.parametrize("logged", [False, True])
def test_the_content_of_a_kubeconfig_is_on_the_terminal_and_not_in_the_journal(tmp_path: Path, logged: bool) -> None:
    path = written(tmp_path, config({"server": ADDRESS}))
    written(tmp_path, '[resources."example.com/x"]\nstatic = { quantity = 4 }\n', "x.toml")
    with open(tmp_path / "errors", "w+") as errors:
        status = os.fstat(errors.fileno())
        stream = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"} if logged else {}
        command = [sys.executable, "-m", "capacityd", "plan", f"--config={tmp_path}/x.toml", f"--kubeconfig={path}"]
        done = subprocess.run(command, stderr=errors, env={**os.environ, **stream})
        errors.seek(0)
        text = errors.read()
    assert done.returncode == 3
    assert f"capacityd: the API server in {path}" in text
    assert (f"capacityd: server: {ADDRESS}" in text) is not logged


def test_probe_shows_what_a_file_contains_only_with_explain(tmp_path: Path) -> None:
    written(tmp_path, "many\n", "seats")
    written(tmp_path, f'[resources."example.com/x"]\nfile = {{ path = "{tmp_path}/seats" }}\n', "x.toml")
    command = [sys.executable, "-m", "capacityd", "probe", f"--config={tmp_path}/x.toml"]
    plain, explained, document = (
        subprocess.run([*command, *more], capture_output=True, text=True).stdout
        for more in ([], ["--explain"], ["--explain", "--json"])
    )
    assert "not a whole number from 0 up (4 characters)" in plain
    assert '"sudo capacityd probe --explain" shows the text' in plain
    assert "many" not in plain
    assert 'detail  it contains "many"' in explained
    assert '"detail": "it contains \\"many\\""' in document

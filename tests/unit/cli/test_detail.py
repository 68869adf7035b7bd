"""Only `probe --explain` shows what was read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.node.test_credentials import config, written

ADDRESS = "https://me.invalid:6443"


def test_the_content_of_a_kubeconfig_is_not_shown(tmp_path: Path) -> None:
    """Who may read the file finds the address in it."""
    path = written(tmp_path, config({"server": ADDRESS}))
    written(tmp_path, '[resources."example.com/x"]\nstatic = { quantity = 4 }\n', "x.toml")
    command = [sys.executable, "-m", "capacityd", "plan", f"--config={tmp_path}/x.toml", f"--kubeconfig={path}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3
    assert f"capacityd: the API server in {path}" in done.stderr
    assert ADDRESS not in done.stderr


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

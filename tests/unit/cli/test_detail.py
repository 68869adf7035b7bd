"""Only `probe --explain` shows the content that was read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.node.test_credentials import written


def test_probe_shows_what_a_file_contains_only_with_explain(tmp_path: Path) -> None:
    written(tmp_path, "many\n", "seats")
    written(tmp_path, f'[resources."example.com/x"]\nfile = {{ path = "{tmp_path}/seats" }}\n', "x.toml")
    command = [sys.executable, "-m", "capacityd", "probe", f"--config={tmp_path}/x.toml"]
    plain, explained, document = (
        subprocess.run([*command, *options], capture_output=True, text=True).stdout
        for options in ([], ["--explain"], ["--explain", "--json"])
    )
    assert "not a whole number from 0 up (4 characters)" in plain
    assert '"sudo capacityd probe --explain" shows the text' in plain
    assert "many" not in plain
    assert 'detail  it contains "many"' in explained
    assert '"detail": "it contains \\"many\\""' in document

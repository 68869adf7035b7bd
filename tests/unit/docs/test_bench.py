"""The command line of make bench."""

from __future__ import annotations

import subprocess
import sys

from tests import ROOT


def test_an_unknown_part_is_an_error_of_one_line() -> None:
    command = [sys.executable, "-m", "tests.bench", "idle", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert line.startswith('make bench: unknown part "nothing"; must be one of probing, ')
    assert "unjoined" in line

"""What the removal of the package says when the service has left no word of what is on the Node, and when it has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests import ROOT


def farewell(status: Path) -> str:
    command: list[str | Path] = [sys.executable, "-I", ROOT / "packaging/deb/farewell.py", status]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_what_is_published_is_not_claimed_where_it_is_not_known(tmp_path: Path) -> None:
    """As after "capacityd withdraw", for which the service has been stopped, and its folder in /run is gone."""
    for text in (None, "", "{", "[]", '{"plan": {}}'):
        status = tmp_path / "status.json"
        if text is not None:
            status.write_text(text)
        assert "keeps what its annotation capacityd/published names, if it has one." in farewell(status)


def test_a_service_that_published_nothing_leaves_nothing(tmp_path: Path) -> None:
    status = tmp_path / "status.json"
    status.write_text(json.dumps({"plan": {"node": "n1"}, "published": {}}))
    assert farewell(status) == "capacityd: nothing of it is published on Node n1.\n"

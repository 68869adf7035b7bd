"""What a node has, capacityd without capacityd-tools and rich: the same program, less what only people need."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.unit.nodes import node
from tests.unit.tour import MACHINE

TOUR = str(ROOT / "docs/tour/dongles.toml")
_LIST = ROOT / "packaging/deb/capacityd-tools.install"
_START = "import sys; sys.path.insert(0, sys.argv.pop(1))"
_MAIN = f"{_START}; from capacityd.__main__ import main; sys.exit(main())"
_WITHOUT_RICH = f"import sys; sys.modules['rich'] = None; {_MAIN}"
_IMPORTS = f"""{_START}; sys.modules['rich'] = None
import pkgutil, capacityd
for module in pkgutil.walk_packages(capacityd.__path__, "capacityd."):
    if module.name != "capacityd.__main__":
        print(__import__(module.name) and module.name)
"""


@pytest.fixture(scope="module")
def of_nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules without those that the package capacityd-tools lists."""
    folder = tmp_path_factory.mktemp("node")
    shutil.copytree(ROOT / "agent/capacityd", folder / "capacityd", ignore=shutil.ignore_patterns("__pycache__"))
    for line in _LIST.read_text().splitlines():
        moved = folder / line.split()[0].removeprefix("agent/")
        if moved.is_dir():
            shutil.rmtree(moved)
        else:
            moved.unlink()
    return folder


def said(script: str, folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    command = [sys.executable, "-c", script, str(folder), *arguments]
    usual = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(command, capture_output=True, text=True, env={**usual, **environment}, timeout=60)
    return result.returncode, result.stdout, result.stderr


def test_every_module_of_a_node_is_whole(of_nodes: Path) -> None:
    status, out, err = said(_IMPORTS, of_nodes)
    assert (status, err) == (0, "")
    assert {"capacityd.daemon", "capacityd.explain", "capacityd.cli.report"} <= set(out.split())
    assert not {"capacityd.inventory", "capacityd.host.recording"} & set(out.split())


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "devices --help",
        "config check",
        "config show",
        "probe",
        "probe --explain",
        "probe --json",
        "plan",
        "apply",
        "withdraw",
        "status",
    ],
)
def test_a_command_says_the_same(command: str, of_nodes: Path, tmp_path: Path) -> None:
    """In a pipe as ever; on a terminal what it says in a pipe."""

    def says(script: str, folder: Path, **environment: str) -> tuple[int, str, str]:
        file = tmp_path / "node.json"
        file.write_text(json.dumps(node()))
        options = ["--machine", str(MACHINE), "--config", TOUR, "--node-file", str(file)]
        return said(script, folder, *command.split(), *options, RUNTIME_DIRECTORY=str(tmp_path), **environment)

    whole = says(_MAIN, ROOT / "agent")
    assert says(_WITHOUT_RICH, of_nodes) == whole
    assert says(_WITHOUT_RICH, of_nodes, FORCE_COLOR="1") == whole
    assert whole[0] in (0, 1)
    assert "Traceback" not in whole[2]


@pytest.mark.parametrize("command", ["devices", "devices usb --toml", "record -", "config schema"])
def test_what_is_not_there_says_where_it_is(command: str, of_nodes: Path) -> None:
    what = "config schema" if command.startswith("config") else command.split()[0]
    expected = f"capacityd: {what} is in the package capacityd-tools: apt install capacityd-tools\n"
    assert said(_WITHOUT_RICH, of_nodes, *command.split()) == (2, "", expected)


def test_another_missing_module_is_a_defect(of_nodes: Path, tmp_path: Path) -> None:
    """Only what is in the other package is told to be there."""
    broken = tmp_path / "broken"
    shutil.copytree(of_nodes, broken)
    (broken / "capacityd/match.py").unlink()
    status, _, err = said(_MAIN, broken, "probe", "--machine", str(MACHINE), "--config", TOUR)
    assert status == 1
    assert "No module named 'capacityd.match'" in err
    assert "capacityd-tools" not in err

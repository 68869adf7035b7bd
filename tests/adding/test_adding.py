"""Follows the pages on adding things literally, as a new contributor would, in a copy of the project.

make ci runs the tests that depend on the additions. make adding runs all unit tests as well.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.pages import Block, blocks

PAGES = [ROOT / "agent/new-detector.md", ROOT / "agent/adding.md"]
DEPENDENT = (
    *("tests/unit/docs", "tests/unit/config", "tests/unit/detectors", "tests/unit/cli/test_terminal.py"),
    *("tests/unit/discovery/test_reads.py", "tests/corpus/test_corpus.py"),
)
"""Tests that depend on the detectors, settings, metrics and reasons, beside the tests that the pages name.

The example counts watchdogs, which some machines of the corpus have.
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a copy of the project with all examples of the pages."""
    folder = tmp_path_factory.mktemp("project")
    copy_project(folder)
    for block in named_blocks():
        apply(block, folder / block.name)
    run(folder, "make", "docs", "golden")
    return folder


def named_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks(page.read_text()) if block.name]


def test_the_examples_of_the_pages_work(project: Path) -> None:
    changed_tests = {block.name for block in named_blocks() if block.name.startswith("tests/")}
    run(project, "make", "lint", "types")
    run(project, ".venv/bin/pytest", "-q", "-n", "2", *sorted(changed_tests), *DEPENDENT)
    assert_the_detector_works(project)


@pytest.mark.whole
@pytest.mark.timeout(1800)
def test_nothing_but_what_the_pages_say_is_needed(project: Path) -> None:
    run(project, "make", "check", "unit")


def copy_project(folder: Path) -> None:
    """Copies the project's files, and links to the tools of this environment."""
    listed = subprocess.run(["sh", ROOT / "packaging/sources"], capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    for path in Path(sys.prefix).iterdir():
        if path.name != "ready":
            (folder / ".venv" / path.name).symlink_to(path)
    (folder / ".venv/ready").touch()
    if (ROOT / ".mypy_cache").exists():
        shutil.copytree(ROOT / ".mypy_cache", folder / ".mypy_cache")


def apply(block: Block, path: Path) -> None:
    """Creates the file of a block, or applies the block's diff to its file."""
    if block.kind != "diff":
        assert not path.exists(), f"{block.name} exists"
        path.write_text(block.text)
        return
    text = path.read_text()
    for part in block.text.split("@@\n"):
        lines = part.splitlines(keepends=True)  # each begins with " " (context), "-" or "+"
        old, new = ("".join(line[1:] for line in lines if line[0] in kinds) for kinds in (" -", " +"))
        assert text.count(old) == 1, f"{block.name} has these lines {text.count(old)} times:\n{old}"
        text = text.replace(old, new)
    path.write_text(text)


def assert_the_detector_works(folder: Path) -> None:
    watchdog = "/sys/devices/platform/iTCO_wdt.0/watchdog/watchdog0"
    machine = {
        "files": {f"{watchdog}/timeout": "30\n", f"{watchdog}/identity": "iTCO_wdt\n"},
        "links": {"/sys/class/watchdog/watchdog0": "../../devices/platform/iTCO_wdt.0/watchdog/watchdog0"},
    }
    (folder / "machine.json").write_text(json.dumps(machine))
    capacityd = ("/usr/bin/python3", "-B", "-m", "capacityd")
    of_machine = ("--machine", "machine.json")
    assert "watchdog0" in run(folder, *capacityd, "devices", "watchdog", *of_machine)
    example = ("--config", "conf/examples/watchdog.toml")
    probed = json.loads(run(folder, *capacityd, "probe", "--json", *of_machine, *example))
    assert [(r["name"], r["quantity"]) for r in probed["resources"]] == [("example.com/watchdog", 1)]


def run(folder: Path, *command: str) -> str:
    """Runs a command in the copy, with the modules of the copy, and returns the output."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment |= {"PYTHONPATH": str(folder / "agent"), "HYPOTHESIS_PROFILE": "quick"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-20_000:]
    return done.stdout

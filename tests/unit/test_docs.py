"""Every example of the documentation: commands print what is shown, TOML is without mistakes, links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from capacityd.config import load
from tests.unit.tour import MACHINE, ROOT, printed, recording

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def blocks(kind: str) -> list[tuple[str, str]]:
    """(page, block) of all blocks of a kind."""
    found = [
        (page.name, block) for page in PAGES for block in re.findall(rf"```{kind}\n(.*?)```", page.read_text(), re.S)
    ]
    assert found
    return found


def test_the_tour_runs_on_the_recorded_machine() -> None:
    assert json.loads(MACHINE.read_text()) == recording(), "make docs writes it anew"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    assert _STAMP.sub("TIME", printed(text, tmp_path)) == _STAMP.sub("TIME", text), "make docs writes it anew"


@pytest.mark.parametrize(("page", "block"), blocks("toml"))
def test_toml_is_without_mistakes(page: str, block: str, tmp_path: Path) -> None:
    path = tmp_path / "example.toml"
    path.write_text(block)
    loaded = load(str(path))
    assert [str(problem) for problem in loaded.problems] == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs").rglob("*.toml")) + sorted((ROOT / "conf").rglob("*.toml")), ids=lambda p: p.name
)
def test_shipped_files_are_without_mistakes(path: Path) -> None:
    assert [str(problem) for problem in load(str(path)).problems] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_make_run_shows_the_main_job_and_no_kubeconfig_leads_it_astray(tmp_path: Path) -> None:
    kubeconfig, node = tmp_path / "config", tmp_path / "node.json"
    kubeconfig.write_text("not for us: {")
    done = subprocess.run(
        ["sh", str(ROOT / "docs/tour/run.sh")],
        env={
            "PATH": os.environ["PATH"],
            "CAPACITYD": f"env PYTHONPATH={ROOT / 'agent'} {sys.executable} -m capacityd",
            "NODE_FILE": str(node),
            "KUBECONFIG": str(kubeconfig),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n$ capacityd ") == 4
    capacity = json.loads(node.read_text())["status"]["capacity"]
    assert f'"cpu": "{capacity["cpu"]}"' in done.stdout.rpartition("The capacity of the Node")[2]

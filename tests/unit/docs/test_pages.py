"""Every example in the documentation: commands print the output on the page, TOML is valid, links have a target."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from capacityd.cli.parser import command_parser
from capacityd.config import load
from capacityd.config.keys import RESOURCE_KEYS, SETTINGS_TABLES
from capacityd.detectors import detector_names
from capacityd.node.kubelet_kubeconfig import KUBECONFIG_PATHS
from kubectl_capacityd.parser import command_parser as kubectl_parser
from tests import ROOT
from tests.bench.idle import MOST_WAKEUPS
from tests.bench.plugging import MOST_MEMORY, MOST_SECONDS
from tests.support.configs import loaded
from tests.support.pages import Block, blocks, commands, fences, manifests, pages, place, same
from tests.support.tour import printed

PAGES = pages()


def name_of(page: object) -> str:
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else ""


def all_blocks(kind: str) -> list[Any]:
    """All blocks of a kind."""
    return [
        pytest.param(block, id=f"{name_of(page)}-{number}")
        for page in PAGES
        for number, block in enumerate(blocks(page.read_text()), 1)
        if block.kind == kind
    ]


@pytest.mark.parametrize("page", [p for p in PAGES if not place(p.read_text())], ids=name_of)
def test_commands_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    assert same(printed(text, tmp_path)) == same(text), "make docs writes it again"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_fence_belongs_to_a_block(page: Path) -> None:
    text = page.read_text()
    assert fences(text) == 2 * len(list(blocks(text))), "a fence is indented, or not closed"


@pytest.mark.parametrize("block", all_blocks("toml"))
def test_toml_is_valid_or_marked_as_invalid(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "example.toml"
    path.write_text(block.text)
    problems = [str(problem) for problem in load(str(path)).problems]
    if block.invalid:
        assert problems, "marked as invalid, but valid"
    else:
        assert problems == []


@pytest.mark.parametrize("block", all_blocks("yaml"))
def test_yaml_can_be_read(block: Block) -> None:
    assert all(isinstance(document, dict) for document in manifests(block))


def test_the_page_on_installation_has_every_path_of_a_kubeconfig() -> None:
    page = (ROOT / "docs/install.md").read_text()
    assert re.findall(r"^\| .* \| `(/.*)` \|$", page, re.MULTILINE) == [*KUBECONFIG_PATHS]


def test_the_playbook_runs_commands_that_exist() -> None:
    (block,) = (b for b in blocks((ROOT / "docs/install.md").read_text()) if b.name == "rollout.yaml")
    modules = [value for task in yaml.safe_load(block.text) for value in task.values() if isinstance(value, dict)]
    called = [module[key] for module in modules for key in ("cmd", "validate") if key in module]
    assert len(called) == 2
    for command in called:
        program, *words = shlex.split(command)
        assert program == "capacityd"
        command_parser().parse_args(words)


@pytest.mark.parametrize("block", all_blocks("sh"))
def test_shell_commands_are_well_formed_and_ours_exist(block: Block) -> None:
    done = subprocess.run(["sh", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for words in commands(block):
        words = words[1:] if words[0] == "sudo" else words
        if words[0] == "capacityd":
            command_parser().parse_args(words[1 : 1 + _argument_count(words)])
        elif words[:2] == ["kubectl", "capacityd"]:
            kubectl_parser().parse_args(words[2 : 1 + _argument_count(words)])
        elif words[0] == "kubectl-capacityd":
            kubectl_parser().parse_args(words[1 : 1 + _argument_count(words)])


def _argument_count(words: list[str]) -> int:
    """How many of a command's words are arguments, and not a pipe, a redirection or the next command."""
    return next((n for n, word in enumerate(words[1:]) if word in ("|", ">", ">>", "2>", "&&", "||", ";")), len(words))


def test_the_configuration_page_has_every_key_that_is_not_a_detectors() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    for key in (*RESOURCE_KEYS, *(key for table in SETTINGS_TABLES.values() for key in table)):
        assert re.search(rf"^{key} = ", page, re.MULTILINE), key


def test_the_commented_configuration_has_every_key_that_is_not_a_detectors() -> None:
    """The file is valid when its keys ("#key = 1") are uncommented. Its remarks begin with "# " or "#:"."""
    text = re.sub(r"^#(?=[^ :])", "", (ROOT / "conf/capacityd.toml").read_text(), flags=re.MULTILINE)
    configured = loaded(text)
    assert configured.require()
    written = {key for name, origin in configured.origins["resources"].items() for key in origin.content[name]}
    assert written >= RESOURCE_KEYS.keys() - {"enabled"}
    assert "\nenabled = " in text
    for table, keys in SETTINGS_TABLES.items():
        assert configured.origins[table].keys() == keys.keys()


def test_every_detector_has_an_example() -> None:
    examples = [*(ROOT / "conf/examples").glob("*.toml"), *(ROOT / "docs").rglob("*.md")]
    text = "".join(path.read_text() for path in examples)
    assert [name for name in detector_names() if not re.search(rf"^{name} = ", text, re.MULTILINE)] == []


def test_the_readmes_figures_are_the_limits_of_the_bench() -> None:
    words = " ".join((ROOT / "README.md").read_text().replace("> ", "").split())
    assert f"at most {MOST_MEMORY} MiB of memory" in words
    assert "less than a second of CPU time for a pass" in words
    assert "at most twice a minute" in words
    assert (MOST_SECONDS, MOST_WAKEUPS) == (1, 2), "a second, twice a minute"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target.name} has no heading #{anchor}"


def test_every_page_can_be_found_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            waiting += [target for target, _ in links(page) if target.suffix == ".md"]
    assert set(PAGES) - reached == set()


def links(page: Path) -> list[tuple[Path, str]]:
    """The file and the anchor ("" for none) of each link within the project, such as [text](page.md#heading)."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    matches = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)", prose)
    return [((page.parent / target).resolve() if target else page, anchor) for target, anchor in matches]


def anchors(page: Path) -> set[str]:
    """The anchors of the page's headings, as GitHub generates them."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.slow
def test_make_run_shows_the_main_job_and_ignores_the_kubeconfig(tmp_path: Path) -> None:
    kubeconfig, node = tmp_path / "config", tmp_path / "node.json"
    kubeconfig.write_text("not for us: {")
    done = subprocess.run(
        ["sh", str(ROOT / "packaging/run")],
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

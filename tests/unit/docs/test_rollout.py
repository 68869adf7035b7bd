"""The playbook of the page on the rollout: its tasks are well formed, and its commands are ours."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import yaml

from capacityd.cli.parser import command_parser
from tests import ROOT
from tests.support.pages import blocks

PAGE = (ROOT / "docs/operations.md").read_text()
BLOCKS = {block.name: block.text for block in blocks(PAGE) if block.name}
PLAYS: list[dict[str, Any]] = yaml.safe_load(BLOCKS["rollout.yaml"])
TASKS = [task for play in PLAYS for task in play["tasks"]]
KEYWORDS = {"name", "register", "changed_when", "retries", "delay", "until"}


def module(task: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The one module of a task, and its arguments."""
    ((name, arguments),) = ((key, value) for key, value in task.items() if key not in KEYWORDS)
    return name, arguments


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["name"])
def test_a_task_has_one_module_of_ansibles_own(task: dict[str, Any]) -> None:
    name, arguments = module(task)
    assert name.startswith("ansible.builtin.")
    for command in (arguments.get("cmd"), arguments.get("validate")):
        if command:
            program, *words = shlex.split(command)
            assert program == "capacityd"
            command_parser().parse_args(words)


def test_it_installs_the_files_that_the_page_makes() -> None:
    copied = {arguments["dest"] for name, arguments in map(module, TASKS) if name == "ansible.builtin.copy"}
    (sources,) = (name for name in BLOCKS if name.endswith(".sources"))
    (key,) = (line.partition(": ")[2] for line in BLOCKS[sources].splitlines() if line.startswith("Signed-By: "))
    assert {sources, key} < copied

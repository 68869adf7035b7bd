"""The generated files: man shows the manual, shells complete commands, and the reference is current."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from capacityd.cli import run
from capacityd.cli.output.status_report import ResourceRow
from capacityd.config.keys import RESOURCE_KEYS, SETTINGS_TABLES, WHEN_KEYS
from capacityd.detectors import detector_names
from kubectl_capacityd.fleet.assess import FleetReport, NodeReport, NodeResource, ResourceSummary
from kubectl_capacityd.fleet.findings import Finding
from tests import ROOT

PATIENCE = 60.0  # seconds

WORDS = {
    "capacityd.8": ("config",),
    "capacityd.toml.5": (*RESOURCE_KEYS, *WHEN_KEYS, *detector_names(), *SETTINGS_TABLES),
    "kubectl-capacityd.1": ("fleet", "template"),
}
"""Words that must begin a line in each page of the manual."""


@cache
def generated(name: str) -> str:
    """The text of a generated file, such as "capacityd.8" or "reference.md"."""
    command: list[str | Path] = [sys.executable, "-B", ROOT / "packaging/manual", name]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}/agent:{ROOT}/kubectl", "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True, env=environment).stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", WORDS)
@pytest.mark.parametrize("width", [60, 80])
def test_man_shows_the_page_without_a_warning(page: str, width: int, tmp_path: Path) -> None:
    path = tmp_path / page
    path.write_text(generated(page))
    environment = {"PATH": os.environ["PATH"], "MANWIDTH": str(width), "LC_ALL": "C.UTF-8", "MANROFFOPT": "-c"}
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", path], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = re.sub("\x08.", "", done.stdout)  # a bold "a" is "a\x08a"
    too_wide = [line for line in shown.splitlines() if len(line) > width]
    assert width < 80 or not too_wide  # tables need 80 columns
    for word in WORDS[page]:
        assert re.search(rf"^ +\[?{re.escape(word)}\b", shown, re.MULTILINE), word


@pytest.mark.parametrize("page", ["reference.md", "json.md"])
def test_the_reference_is_current(page: str) -> None:
    assert (ROOT / "docs" / page).read_text() == generated(page), "make docs writes it anew"


ON_MACHINE, CONFIGURED = "--machine conf/examples/tour/machine.json", "--config conf/examples/tour/dongles.toml"
WITH_JSON = {
    "devices": ON_MACHINE,
    "probe": f"{ON_MACHINE} {CONFIGURED}",
    "plan": f"{ON_MACHINE} {CONFIGURED} --node-file conf/examples/tour/node.json",
    "config check": CONFIGURED,
    "config show": CONFIGURED,
}


def fields_of(command: str) -> set[str]:
    """The field names that docs/json.md lists for a command."""
    section = generated("json.md").partition(f"## {command}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"\w+", cell)}


@pytest.mark.parametrize(
    ("command", "classes"),
    [
        ("status", (ResourceRow,)),
        ("kubectl capacityd fleet", (FleetReport, ResourceSummary, Finding, NodeReport, NodeResource)),
    ],
)
def test_the_page_on_json_knows_every_field_of_a_report(command: str, classes: tuple[Any, ...]) -> None:
    assert {field.name for cls in classes for field in fields(cls)} - fields_of(command) == set()


@pytest.mark.parametrize("name", WITH_JSON)
def test_the_reference_knows_every_key_of_the_json(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert run([*name.split(), "--json", *WITH_JSON[name].split()]) == 0
    report = json.loads(capsys.readouterr().out)
    documented = fields_of(name)
    keys = {*report}  # and the keys of the objects in its lists, except a JSON patch, whose operations have an "op"
    for value in report.values():
        if isinstance(value, list) and value and isinstance(value[0], dict) and "op" not in value[0]:
            keys |= {*value[0]}
    assert keys - documented == set()


SHELLS = {  # the command, the file of the completion, and the shell command that loads it
    "bash": (["bash", "--norc", "--noprofile", "-i"], "capacityd.bash", "source {file}"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "_capacityd",
        "fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -d {folder}/dump",
    ),
}


@contextmanager
def shell(name: str, folder: Path) -> Iterator[int]:
    """Runs an interactive shell with the completion, and yields its terminal. capacityd only prints its arguments."""
    command, file, load_it = SHELLS[name]
    (folder / file).write_text(generated(file))
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        os.execvpe(command[0], command, {"PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "", "HOME": str(folder)})
    try:
        os.write(terminal, (load_it.format(file=folder / file, folder=folder) + "\n").encode())
        # The shell echoes this line, so the line must not contain the word that ends the wait: hence rea''dy.
        os.write(terminal, b"capacityd() { printf 'got<%s>' \"$@\"; echo; }; echo rea''dy\n")
        output_until(terminal, "ready")
        yield terminal
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def output_until(terminal: int, awaited: str) -> str:
    """Reads the terminal's output until it contains this pattern."""
    shown, end = "", time.monotonic() + PATIENCE
    while not re.search(awaited, shown):
        assert time.monotonic() < end, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("name", SHELLS)
def test_shells_complete_commands_options_and_files(name: str, tmp_path: Path) -> None:
    (tmp_path / "a file.json").write_text("")
    with shell(name, tmp_path) as terminal:
        for typed, words in {
            "dev\t": ["devices"],
            "devices file\t": ["devices", "filesystem"],
            "stat\t --js\t": ["status", "--json"],
            "config sh\t": ["config", "show"],
            "prob\t --machine a\t": ["probe", "--machine", "a file.json"],
            "prob\t --expl\t": ["probe", "--explain"],
        }.items():
            os.write(terminal, f"capacityd {typed}\n".encode())
            expected = "".join(f"got<{word}>" for word in words)
            assert expected in output_until(terminal, r"got<[^%]*>\r?\n"), typed  # not the echo of got<%s>

"""The command line of `kubectl capacityd`: help, usage errors, and what it imports."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from capacityd.model.modules import debian_package
from kubectl_capacityd.__main__ import run
from kubectl_capacityd.help import EXAMPLES
from kubectl_capacityd.parser import COMMANDS, command_parser
from tests import ROOT
from tests.unit.cli.test_missing_modules import KUBECONFIG

ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}/agent:{ROOT}/kubectl"}


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_help_fits_80_columns_and_its_examples_are_accepted(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        run([*filter(None, [command]), "--help"])
    output = capsys.readouterr().out
    assert "\nexit status:\n  0  done\n" in output
    assert [line for line in output.splitlines() if len(line) > 80 and "  # " not in line] == []
    for example, _ in EXAMPLES.get(command, ()):
        assert f"\n  {example} " in output
        words = shlex.split(example)
        assert words[:2] == ["kubectl", "capacityd"]
        assert command_parser().parse_args(words[2:]).command == command


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("flet", 'kubectl capacityd: error: unknown command "flet"; did you mean "fleet"?'),
        ("status", 'kubectl capacityd: error: unknown command "status"; must be one of fleet, template'),
        ("--context x fleet", "unrecognized arguments: --context; the options of a command stand after the command"),
        ("fleet --jso", 'kubectl capacityd fleet: error: unrecognized arguments: --jso; did you mean "--json"?'),
        ("template gk", "kubectl capacityd template: error: argument AUTOSCALER: invalid choice"),
    ],
)
def test_a_usage_error_is_explained_and_exits_with_status_2(
    typed: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(typed.split())
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


SERVICE_MODULES = ("capacityd.service", "capacityd.watcher", "systemd")


@pytest.mark.parametrize(("command", "hidden"), [("fleet", ("capacityd.host", "psutil", "pyudev")), ("template", ())])
def test_a_command_imports_nothing_of_the_service(command: str, hidden: tuple[str, ...]) -> None:
    """So the commands run on machines without systemd. `fleet` also imports nothing that reads hardware."""
    script = f"""
import sys
for name in {(*SERVICE_MODULES, *hidden)!r}:
    sys.modules[name] = None
from kubectl_capacityd.commands import {command}
from kubectl_capacityd import __main__, completion
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", ["kubernetes", "tabulate", "urllib3", "yaml"])
def test_a_missing_module_is_named_with_its_package(module: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(json.dumps(KUBECONFIG))
    script = f"""
import sys
sys.modules[{module!r}] = None
from kubectl_capacityd.__main__ import run
sys.exit(run(["fleet", "--kubeconfig", {str(tmp_path / "config")!r}]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 1
    (message,) = done.stderr.splitlines()
    assert f"has no Python module {module}: apt install {debian_package(module)}, or pip install " in message

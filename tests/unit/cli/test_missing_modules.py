"""If a Python module is missing, each command that needs it names the package to install, in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from capacityd.model.codec import encode
from capacityd.model.messages import JobRequest
from capacityd.model.modules import COMMANDS_ONLY, OPTIONAL, PACKAGES, SERVICE_MODULES, debian_package
from capacityd.model.options import Selection
from capacityd.model.reasons import Job
from tests import ROOT
from tests.support.nodes import node

pytestmark = pytest.mark.slow

CONFIG = ["--config", "capacityd.toml"]
CREDENTIALS = ["--kubeconfig", "kubeconfig"]
NODE_FILE = ["--node-file", "node.json"]
COMMANDS = {
    "devices": ["devices", "cpu"],
    "probe": ["probe", *CONFIG],
    "plan": ["plan", *CONFIG, *CREDENTIALS],
    "plan of a file": ["plan", *CONFIG, *NODE_FILE],
    "apply": ["apply", *CONFIG, *NODE_FILE],
    "withdraw": ["withdraw", *CONFIG, *CREDENTIALS],
    "run": ["run", *CONFIG, *CREDENTIALS],
    "record": ["record", "recording"],
    "status": ["status"],
    "config": ["config", "check", *CONFIG, *CREDENTIALS],
}
WORKERS = {"a check": Job.CHECK, "a pass": Job.RECONCILE}  # the jobs of the service's worker
# Hides a module, and runs each command in a fork (otherwise the imports of earlier commands would remain).
_PROGRAM = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
sys.modules[sys.argv[2]] = None
for name, arguments in json.loads(sys.argv[3]).items():
    if (pid := os.fork()) == 0:
        out = os.open(f"out-{name}", os.O_CREAT | os.O_WRONLY)
        os.dup2(out, 1), os.dup2(out, 2)
        os.execv = lambda *_: os._exit(99)  # the service itself
        if arguments[0] == "worker":
            *_, job = arguments
            reader, writer = os.pipe()
            os.write(writer, job.encode() + b"\\n")
            os.close(writer)
            os.dup2(reader, 0)
            from capacityd.worker.main import main
            main(arguments[1:-1])
        from capacityd.__main__ import main
        sys.exit(main(arguments))
    with open(f"status-{name}", "w") as f:
        f.write(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
"""
NEEDED_BY = {
    "kubernetes": {"run", "plan", "withdraw", "a pass"},
    "psutil": {*COMMANDS, "a pass"} - {"config", "status"},
    "pyudev": {*COMMANDS, "a pass"} - {"config", "status"},
    "systemd": {"run", *WORKERS},
    "tabulate": {*COMMANDS} - {"run"},
    "urllib3": {"run", "plan", "withdraw", "a pass"},
    "yaml": {"run", "plan", "withdraw", "a pass"},
}
"""The commands that fail without a module, by module."""
KUBECONFIG = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "x" * 20}}],
}


@pytest.mark.parametrize("module", NEEDED_BY)
def test_a_missing_module_is_named_with_its_package(tmp_path: Path, module: str) -> None:
    (tmp_path / "capacityd.toml").write_text('[resources."example.com/a"]\nstatic = { quantity = 1 }\n')
    (tmp_path / "node.json").write_text(json.dumps(node()))
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    (tmp_path / "run").mkdir()
    commands = {name: COMMANDS[name] for name in NEEDED_BY[module] - WORKERS.keys()}
    selection = json.dumps(encode(Selection("capacityd.toml", kubeconfig="kubeconfig")))
    for name in NEEDED_BY[module] & WORKERS.keys():
        request = json.dumps(encode(JobRequest(WORKERS[name])))
        commands[name] = ["worker", "run", selection, request]
    environment = {"RUNTIME_DIRECTORY": str(tmp_path / "run"), "STATE_DIRECTORY": str(tmp_path / "state")}
    arguments = [str(ROOT / "agent"), module, json.dumps(commands)]
    subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], check=True, cwd=tmp_path, env=environment)
    message = f"has no Python module {module}: apt install {debian_package(module)}, or pip install "
    for name in commands:
        *others, last = (tmp_path / f"out-{name}").read_text().splitlines()
        assert message in last
        if name in WORKERS:
            assert message in str(json.loads(last)), "the worker sends the message to the service"
        else:
            assert others == []
            assert (tmp_path / f"status-{name}").read_text() == "1"


def test_the_tests_hide_every_module_that_must_be_installed() -> None:
    """tomli is part of Python since 3.11, as tomllib."""
    assert {*NEEDED_BY, "tomli"} == {*SERVICE_MODULES, *COMMANDS_ONLY, "tomli"} == {*PACKAGES} - {*OPTIONAL}


def test_the_debian_package_depends_on_each_module() -> None:
    control = (ROOT / "packaging/deb/control").read_text()
    needed, _, suggested = control.partition("Recommends:")
    for module in PACKAGES:
        assert debian_package(module) in (suggested if module in OPTIONAL else needed)

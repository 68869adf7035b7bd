"""The exit status of a command whose request never ends, while one of its threads still waits for the server.

The servers here are fakes, because no real one drips on cue. tests/cluster/test_clients.py runs those versions of
the client that would end the process with SIGABRT.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from capacityd.model.options import Selection
from capacityd.model.reasons import Job, RetryCause
from tests import ROOT
from tests.support.tls import DRIPS, serve_tls
from tests.support.workers import job_line, messages_of, pass_result, worker_arguments
from tests.unit.node.test_credentials import config, written

pytestmark = pytest.mark.slow

# The handler is registered last, because the interpreter calls such handlers in reverse order when it finalizes.
PROGRAM = """
import atexit, socket, sys, time
sys.path[:0] = sys.argv[1].split(":")
from capacityd.node import client
from kubectl_capacityd.cluster import node_list
client.REQUEST_TIMEOUT = node_list._PAGE_TIMEOUT = float(sys.argv[2])

def unresolved(*_, **__):
    while True:
        time.sleep(0.01)

if sys.argv[3] == "name":
    socket.getaddrinfo = unresolved
from PROGRAM.__main__ import main
from capacityd.worker.main import main as worker
atexit.register(print, "finalized")
print("begun", end="; ")
worker(sys.argv[5:]) if sys.argv[4] == "worker" else sys.exit(main(sys.argv[4:]))
"""
PATH = f"{ROOT}/agent:{ROOT}/kubectl"
# Each fault with one command, and each command with one fault.
CASES = [
    *((fault, "plan") for fault in (*DRIPS, "name")),
    *(("header", c) for c in ("apply", "withdraw", "fleet", "worker")),
]


def run(
    folder: Path, fault: str, command: str, timeout: float = 0.3, python: str | Path = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Runs a command with a kubeconfig in the folder. timeout: seconds for each request.

    fault: the server's fault, or "name" for a name whose resolution hangs.
    """
    (folder / "conf.toml").write_text('[resources]\n"example.com/a" = { static = { quantity = 4 } }\n')
    options = [f"--kubeconfig={folder}/kubelet.conf", f"--config={folder}/conf.toml", "--node-name=n1"]
    selection = Selection(f"{folder}/conf.toml", kubeconfig=f"{folder}/kubelet.conf", node_name="n1")
    rest = {"fleet": [options[0], "fleet"], "worker": ["worker", *worker_arguments(folder, selection)[1:]]}
    arguments: Sequence[str] = rest.get(command, [command, *options])
    environment = os.environ | {"RUNTIME_DIRECTORY": str(folder), "STATE_DIRECTORY": str(folder)}
    script = PROGRAM.replace("PROGRAM", "kubectl_capacityd" if command == "fleet" else "capacityd")
    program = [python, "-I", "-c", script, PATH, str(timeout), fault, *arguments]
    job = job_line(Job.RECONCILE, "start")
    return subprocess.run(program, capture_output=True, text=True, env=environment, check=False, input=job)


@pytest.mark.parametrize(("fault", "command"), CASES)
def test_a_request_that_does_not_end_keeps_no_process_alive(tmp_path: Path, fault: str, command: str) -> None:
    with serve_tls(DRIPS.get(fault, DRIPS["header"])) as server:
        url = server.url if fault == "handshake" else server.url.replace("https", "http")
        written(tmp_path, config({"server": url}))
        done = run(tmp_path, fault, command)
    began, _, message = done.stdout.partition("; ")
    assert began == "begun", "the output is flushed"
    error = f"the API server in {tmp_path}/kubelet.conf did not complete its response within 0.3 s"
    if command == "worker":
        result = pass_result(messages_of(message))
        assert (result.cause, result.error) == (RetryCause.UNREACHABLE, error)
        assert (done.returncode, json.loads((tmp_path / "state.json").read_text())["at"] > 0) == (0, True)
    else:
        assert (done.returncode, done.stderr, message) == (3, f"capacityd: {error}\n", "")


def test_after_a_request_that_fails_in_time_the_process_ends_as_usual(tmp_path: Path) -> None:
    written(tmp_path, config({"server": "http://127.0.0.1:1"}))
    done = run(tmp_path, "", "plan", timeout=30.0)
    assert (done.returncode, done.stdout) == (3, "begun; finalized\n")

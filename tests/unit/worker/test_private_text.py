"""Private text that the service reads appears in nothing that other users can read.

Each case puts a marker into one place that the service reads. Then the service's worker checks the configuration and
makes a pass. All that it sends, logs and writes is searched for the marker. tests/unit/discovery/test_private_text.py
has further files of devices.
"""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from capacityd.__main__ import main
from capacityd.model.messages import JobRequest
from capacityd.model.options import Selection
from capacityd.model.reasons import Job, PassReason
from capacityd.worker.main import do_job
from tests.support.machines import bare, files, merge, usb_device
from tests.support.nodes import node
from tests.support.server import Request, Script, answer, review, serve
from tests.unit.node.test_credentials import V1, config, program, written

MARKER = "sEcReT7MaRkEr"
RESOURCE = "example.com/x"


@dataclass
class Case:
    """What the service reads. Paths in the configuration and the kubeconfig may contain {folder} and {server}."""

    toml: str = "static = { quantity = 4 }"
    """The content of the resource's table, or the whole file if it has a [header]."""
    kubeconfig: Any = field(default_factory=lambda: config({"server": "{server}"}))
    node: Script | None = None
    """The response to each request for the Node. None: a valid Node."""
    contents: Mapping[str, str] = field(default_factory=dict)
    """Files in the folder, by name. A content that begins with #! makes a program."""
    machine: Mapping[str, Any] | None = None
    """A recording of a machine, with a file as its Node. None: this machine, with the server's Node."""
    mode: int = 0o644
    """The permissions of the configuration file."""
    shows: str = ""
    """What other users can read about this place, such as what is wrong with it. They must never read MARKER."""
    username: str = "system:node:n1"
    """The user in the server's answer to a SelfSubjectReview."""


def user(**entries: Any) -> Any:
    """A kubeconfig with these entries of the user."""
    return config({"server": "{server}"}, entries)


def plugin(script: str = "", **more: Any) -> Case:
    """A kubeconfig with an exec plugin that runs the script."""
    entry = {"apiVersion": V1, "command": "{folder}/plugin", **more}
    return Case(kubeconfig=user(exec=entry), contents={"plugin": f"#!/bin/sh\n{script}\n"}, shows="the exec plugin ")


def cluster(**entries: Any) -> Case:
    return Case(kubeconfig=config({"server": "{server}", **entries}), shows="the kubeconfig ")


def response(script: Script, shows: str) -> Case:
    return Case(node=script, shows=shows)


DMI = "/sys/class/dmi/id"
BAD_NODE = {**node(), "status": {"capacity": {MARKER: []}}}

CASES: dict[str, Case] = {
    "a file": Case('file = { path = "{folder}/seats" }', contents={"seats": MARKER}, shows="seats: not a whole number"),
    "output of a program": Case(
        'exec = { command = ["{folder}/count"] }',
        contents={"count": f"#!/bin/sh\necho {MARKER}"},
        shows="count printed no number: not",
    ),
    "errors of a program": Case(
        'exec = { command = ["{folder}/count"] }',
        contents={"count": f"#!/bin/sh\necho {MARKER} >&2; exit 3"},
        shows=f"exited with status 3; standard error: {len(MARKER)} characters",
    ),
    "errors beside a number": Case(
        'exec = { command = ["{folder}/count"] }', contents={"count": f"#!/bin/sh\necho {MARKER} >&2;echo 4"}, shows="4"
    ),
    "an interpreter": Case(
        'exec = { command = ["{folder}/count"] }',
        contents={"count": f"#!/{MARKER}/sh\n"},
        shows="the interpreter in its first line does not exist",
    ),
    "a property": Case(
        'usb = {}\nmeasure = "properties.X"',
        machine=merge(bare(), usb_device("1-1", properties={"X": MARKER})),
        shows="properties.X is not a whole number",
    ),
    "a DMI text": Case(
        'static = { quantity = 4 }\nwhen = { dmi = { product_serial = "x" } }',
        machine=merge(bare(), files({f"{DMI}/product_serial": MARKER})),
        shows="dmi.product_serial does not match",
    ),
    "a text of the device tree": Case(
        'static = { quantity = 4 }\nwhen = { devicetree = { model = "x" } }',
        machine=merge(bare(), files({"/proc/device-tree/model": MARKER})),
        shows="devicetree.model does not match",
    ),
    "a private configuration": Case(f'static = "{MARKER}"', mode=0o600, shows="sudo capacityd config check"),
    "a private configuration's TOML": Case(
        f'[resources."{RESOURCE}"]\na = {MARKER}', mode=0o600, shows="sudo capacityd config check"
    ),
    "a private configuration's names": Case(
        f"[resources.{MARKER}]\nstatic = {{ quantity = 1 }}", mode=0o600, shows="config check"
    ),
    "a private configuration's conditions": Case(
        f'static = {{ quantity = 4 }}\nwhen = {{ arch = "{MARKER}" }}', mode=0o600, shows="arch does not match"
    ),
    "YAML": Case(kubeconfig=f"a: {MARKER}\n  b: [{MARKER}", shows="kubelet.conf is not valid YAML"),
    "a server that is unknown": Case(
        kubeconfig=config({"server": f"https://{MARKER}.invalid:6443"}), shows="the API server in {folder}/kubelet.conf"
    ),
    "a proxy": Case(
        kubeconfig=config({"server": "{server}", "proxy-url": f"http://{MARKER}:{MARKER}@127.0.0.1:1"}),
        shows="proxy-url",
    ),
    "a server name": Case(kubeconfig=config({"server": "{server}", "tls-server-name": MARKER}), shows="4"),
    "an authority": Case(
        kubeconfig=config({"server": "https://127.0.0.1:1", "certificate-authority": "{folder}/ca.crt"}),
        contents={"ca.crt": MARKER},
        shows="contains no usable certificate",
    ),
    "a certificate": Case(
        kubeconfig=config(
            {"server": "https://127.0.0.1:1"}, {"client-certificate": "{folder}/c", "client-key": "{folder}/c"}
        ),
        contents={"c": f"-----BEGIN CERTIFICATE-----\n{MARKER}\n-----END CERTIFICATE-----\n"},
        shows="client certificate",
    ),
    "a token file": Case(
        kubeconfig=user(tokenFile="{folder}/token"),
        contents={"token": f"{MARKER}\x01\n{MARKER}"},
        shows="invalid characters",
    ),
    "a plugin's command": plugin(command=MARKER, installHint=MARKER),
    "a plugin's arguments": plugin("exit 3", args=[MARKER], env=[{"name": MARKER, "value": MARKER}]),
    "a plugin's errors": plugin(f"echo {MARKER}; echo {MARKER} >&2; exit 3"),
    "a plugin's output": plugin(f"echo {MARKER}"),
    "a response that is no JSON": response(lambda _: answer(200, MARKER.encode()), "it is not JSON"),
    "a response that is a bad Node": response(lambda _: answer(200, BAD_NODE), "capacity has an invalid quantity"),
    "a machine id": Case(
        node=lambda _: answer(200, node() | {"status": {"nodeInfo": {"machineID": MARKER}}}),
        shows="belongs to another machine",
        username="bob",
    ),
    "a page of a proxy": response(lambda _: answer(502, MARKER.encode()), "with HTTP 502"),
    "a status line": response(lambda _: f"HTTP/1.1 {MARKER}\r\n\r\n".encode(), "cannot be reached"),
    "headers": response(lambda _: f"HTTP/1.1 200 OK\r\n{MARKER}\r\n{MARKER}: {MARKER}\r\n\r\n".encode(), "not JSON"),
}


def test_an_unexpected_exception_is_printed_without_its_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise ValueError(MARKER)

    monkeypatch.setattr("capacityd.worker.main._dispatch", fail)
    assert do_job("", Selection(), JobRequest(Job.RECONCILE)) == 1
    errors = capsys.readouterr().err
    assert "in fail" in errors
    assert errors.endswith("ValueError\n")
    assert MARKER not in errors


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_marker_is_read_by_nobody_else(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    public = outputs(tmp_path, case)
    assert MARKER.lower() not in public.lower()
    assert case.shows.replace("{folder}", str(tmp_path)) in public
    for form in (base64.b64encode(MARKER.encode()).decode().rstrip("="), MARKER.encode().hex()):
        assert form not in public


def outputs(folder: Path, case: Case) -> str:
    """All that others can read after a check and a pass: messages, journal, Node, Events, files, metrics, status."""
    run = folder / "run"
    run.mkdir()
    for name, content in case.contents.items():
        if content.startswith("#!/bin/sh\n"):
            program(folder, content.partition("\n")[2], name)
        else:
            written(folder, content, name)
        (folder / name).chmod(0o755)

    def follow(request: Request) -> bytes | None:
        if "selfsubjectreviews" in request.path:
            return review(case.username)
        return case.node(request) if case.node and "/nodes/" in request.path else answer(200, node())

    with serve(follow) as server:

        def filled(text: str) -> str:
            return text.replace("{folder}", str(folder)).replace("{server}", server.url)

        has_header = case.toml.startswith("[") or "\n[" in case.toml
        toml = case.toml if has_header else f'[resources."{RESOURCE}"]\n{case.toml}'
        settings = f'[service]\ntextfile = "{folder}/capacityd.prom"\n[kubernetes]\nnode_name = "n1"\n'
        written(folder, filled(f"{toml}\n{settings}"), "config.toml")
        (folder / "config.toml").chmod(case.mode)
        document = case.kubeconfig if isinstance(case.kubeconfig, str) else json.dumps(case.kubeconfig)
        selection = Selection(f"{folder}/config.toml")
        if case.machine is None:
            selection = replace(selection, kubeconfig=written(folder, filled(document)))
        else:
            machine, node_file = written(folder, case.machine, "machine.json"), written(folder, node(), "node.json")
            selection = replace(selection, machine=machine, node_file=node_file)
        environment = {**os.environ, "RUNTIME_DIRECTORY": str(run)}
        jobs = (JobRequest(Job.CHECK), JobRequest(Job.RECONCILE, frozenset({PassReason.START})))
        printed = [output(partial(do_job, str(run), selection, job), environment) for job in jobs]
        commands = [["status"], ["status", "--json"]]
        if case.mode == 0o644:  # these commands quote the configuration, which only its readers can pass to them
            config, machine = f"--config={selection.config}", f"--machine={selection.machine}"
            if case.machine is None:
                commands += [["probe", config], ["plan", config, f"--kubeconfig={selection.kubeconfig}"]]
            else:
                commands += [
                    ["probe", config, machine],
                    ["plan", config, machine, f"--node-file={selection.node_file}"],
                ]
        printed += [output(partial(main, arguments), environment) for arguments in commands]
        sent = [f"{request.path} {request.body.decode()}" for request in server.received]
    files = [*run.iterdir()]
    files += [folder / "capacityd.prom", *folder.glob("node.json")]
    public = [path.read_text() for path in files if path.exists() and path.stat().st_mode & stat.S_IROTH]
    assert any("readings" in text for text in public), "a pass was made"
    return "\n".join([*sent, *public, *printed])


def output(command: Callable[[], int], environment: Mapping[str, str]) -> str:
    """What a command prints. Leaves out what the worker tells the service to watch."""
    with tempfile.TemporaryFile() as file:
        if not (pid := os.fork()):
            try:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                sys.stdout, sys.stderr = (open(fd, "w", closefd=False) for fd in (1, 2))  # noqa: SIM115
                os.environ.update(environment)
                command()
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)
        os.waitpid(pid, 0)
        file.seek(0)
        text = file.read().decode()
    assert "Traceback" not in text, text
    # For example: "watch_target": "a \"quoted\" text", and "files": ["a", "b"] or "files": {"a": 1}
    text = re.sub(r'"watch_target": "(\\.|[^"\\])*"', "", text)
    return re.sub(r'"(files|credential_files)": (\[[^]]*\]|\{[^}]*\})', "", text)

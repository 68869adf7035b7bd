"""`when = { node_name = … }` is compared with the Node's name, whatever the machine's host name is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from capacityd.cli import run
from capacityd.model.options import Selection
from capacityd.model.reasons import Job
from tests.support.nodes import node
from tests.support.server import Request, Server, answer, failure, review, serve
from tests.support.terminals import executed
from tests.support.tour import MACHINE
from tests.support.workers import RUN, job_line, worker_arguments
from tests.unit.node.test_api_node import write_kubeconfig

# Resources of the Node n1, and of a Node with this machine's host name.
OURS, HOSTS = "example.com/ours", "example.com/hosts"
CONFIG = f"""
[resources."{OURS}"]
static = {{ quantity = 4 }}
when = {{ node_name = "n1" }}
[resources."{HOSTS}"]
static = {{ quantity = 4 }}
when = {{ node_name = "{socket.gethostname().lower()}" }}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """An API server that knows the user as the kubelet of n1. Writes kubelet.conf and c.toml into tmp_path."""

    def script(request: Request) -> bytes:
        if "selfsubjectreviews" in request.path:
            return review("system:node:n1")
        return answer(200, node(capacity={"cpu": "4"}))

    (tmp_path / "c.toml").write_text(CONFIG)
    with serve(script) as serving:
        write_kubeconfig(tmp_path / "kubelet.conf", serving.url, "secret-token")
        yield serving


def outcomes(*options: str) -> dict[str, str]:
    """The outcome for each resource, from `probe` with these options."""
    _, out, _ = executed(run, "probe", "--json", *options)
    return {resource["name"]: resource["outcome"] for resource in json.loads(out)["resources"]}


def set_by_plan(*options: str) -> list[str]:
    """The resources that `plan` with these options would set."""
    _, out, _ = executed(run, "plan", "--json", *options)
    return [change["name"] for change in json.loads(out)["changes"] if change["action"] == "set"]


def test_the_credentials_name_the_node(server: Server, tmp_path: Path) -> None:
    options = (f"--config={tmp_path}/c.toml", f"--kubeconfig={tmp_path}/kubelet.conf")
    assert outcomes(*options) == {OURS: "quantity", HOSTS: "absent"}
    assert set_by_plan(*options) == [OURS]


@pytest.mark.slow
def test_the_service_publishes_only_the_resource_for_its_node(server: Server, tmp_path: Path) -> None:
    selection = Selection(f"{tmp_path}/c.toml", kubeconfig=f"{tmp_path}/kubelet.conf")
    command = [sys.executable, "-c", RUN, *worker_arguments(tmp_path, selection)]
    environment = os.environ | {"RUNTIME_DIRECTORY": str(tmp_path), "STATE_DIRECTORY": str(tmp_path)}
    subprocess.run(command, input=job_line(Job.RECONCILE, "start"), text=True, capture_output=True, env=environment)
    patches = [str(request.body) for request in server.received if request.method == "PATCH"]
    assert OURS in patches[0]
    assert [patch for patch in patches if HOSTS in patch] == []


@pytest.mark.parametrize("name", ["n1", "other"])
def test_an_option_or_the_configuration_names_the_node(tmp_path: Path, name: str) -> None:
    expected = {OURS: "quantity" if name == "n1" else "absent", HOSTS: "absent"}
    (tmp_path / "c.toml").write_text(CONFIG)
    assert outcomes(f"--config={tmp_path}/c.toml", f"--node-name={name}") == expected
    (tmp_path / "c.toml").write_text(f'{CONFIG}\n[kubernetes]\nnode_name = "{name}"\n')
    assert outcomes(f"--config={tmp_path}/c.toml") == expected


def test_the_name_is_unknown_until_the_api_server_names_the_user(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CONFIG)
    with serve(lambda _: failure(503)) as server:
        write_kubeconfig(tmp_path / "kubelet.conf", server.url, "secret-token")
        options = (f"--config={tmp_path}/c.toml", f"--kubeconfig={tmp_path}/kubelet.conf")
        assert outcomes(*options) == {OURS: "unknown", HOSTS: "unknown"}
        _, out, err = executed(run, "probe", *options)
    assert "the Node's name is not known" in err
    assert "the Node's name is not known; give it with --node-name" in out


@pytest.mark.parametrize(("bound", "outcome"), [("", "unknown"), ("n1", "quantity")])
def test_a_host_name_is_not_taken_for_the_nodes_name(tmp_path: Path, bound: str, outcome: str) -> None:
    """A person's credentials do not tell the Node's name, unless the token is bound to a Node."""

    def script(request: Request) -> bytes:
        if "selfsubjectreviews" in request.path:
            return review("admin", bound)
        document = node()
        document["metadata"]["name"] = request.path.rpartition("/")[2]
        document["status"]["nodeInfo"] = {"machineID": Path("/etc/machine-id").read_text().strip()}
        return answer(200, document)

    (tmp_path / "c.toml").write_text(CONFIG)
    with serve(script) as server:
        write_kubeconfig(tmp_path / "kubelet.conf", server.url, "secret-token")
        options = (f"--config={tmp_path}/c.toml", f"--kubeconfig={tmp_path}/kubelet.conf")
        assert outcomes(*options) == {OURS: outcome, HOSTS: "absent" if bound else "unknown"}
        assert set_by_plan(*options) == ([OURS] if bound else [])


def test_with_a_recording_only_a_node_file_gives_the_name(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CONFIG)
    (tmp_path / "n1.json").write_text(json.dumps(node()))
    options = (f"--machine={MACHINE}", f"--config={tmp_path}/c.toml")
    assert outcomes(*options) == {OURS: "unknown", HOSTS: "unknown"}
    assert outcomes(*options, f"--node-file={tmp_path}/n1.json") == {OURS: "quantity", HOSTS: "absent"}


@pytest.mark.parametrize("command", ["plan", "probe", "withdraw"])
def test_a_file_with_another_node_is_refused(tmp_path: Path, command: str) -> None:
    (tmp_path / "c.toml").write_text(f'{CONFIG}[kubernetes]\nnode_name = "n2"\n')
    (tmp_path / "n1.json").write_text(json.dumps(node()))
    options = (f"--config={tmp_path}/c.toml", f"--node-file={tmp_path}/n1.json")
    status, _, err = executed(run, command, *options)
    assert status == (4 if command == "probe" else 2)
    assert 'it is the Node "n1", but node_name is "n2": save that Node, or use --node-name=n1' in err
    assert run([command, *options, "--node-name=n1"]) == 0

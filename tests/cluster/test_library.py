"""The kubernetes library's shortcomings, in Debian 12 and in the newest version, for which node/ has its own code.

These tests call only the library, so that only a new version of it changes their outcome; `make ci` leaves them out.
If a test fails, the code that refers to it may no longer be needed.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.agent import PYTHON
from tests.cluster.clients import VERSIONS, client
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import kubeconfig, node_user

pytestmark = pytest.mark.whole

V1 = "client.authentication.k8s.io/v1"
DEBIAN = "22.6.0 with urllib3 1.26"
"""The packages of Debian 12."""

# An ordinary use of the library: load_kube_config(), then a request. The outcome is one line of JSON.
_PROGRAM = """
import json, os, signal, sys, warnings
warnings.simplefilter("ignore")
from kubernetes import client, config
path, action = sys.argv[1:3]
configuration = client.Configuration()
try:
    config.load_kube_config(path, client_configuration=configuration)
    outcome = {"token": any(configuration.api_key.values()), "verify": configuration.verify_ssl}
    outcome["server_name"] = getattr(configuration, "tls_server_name", None)
    core = client.CoreV1Api(client.ApiClient(configuration))
    wait = {"_request_timeout": (5, 5)}
    if action.startswith("["):
        core.patch_node_status(sys.argv[3], json.loads(action), _preload_content=False, **wait)
    elif action == "killed":
        print(json.dumps(outcome), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
except Exception as e:
    outcome = {"error": type(e).__name__, "status": getattr(e, "status", None)}
print(json.dumps(outcome))
"""


@pytest.fixture(params=[DEBIAN, VERSIONS[-1]])
def python(request: pytest.FixtureRequest) -> Path:
    return PYTHON if request.param == DEBIAN else client(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path / "kubelet.conf"


def library(python: Path, path: Path, action: str = "load", *more: str, timeout: float | None = None) -> Any:
    """What the library reads from a kubeconfig. Raises TimeoutExpired after timeout seconds."""
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(path.parent / "tmp"), "HOME": str(path.parent)}
    command = [str(python), "-I", "-c", _PROGRAM, str(path), action, *more]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def written(path: Path, user: dict[str, Any], server: str = "https://192.0.2.1:6443", **cluster: Any) -> Path:
    document = json.loads(kubeconfig(server, Path("/dev/null"), user))
    document["clusters"][0]["cluster"] = {"server": server, **cluster}
    path.write_text(json.dumps(document))
    return path


def plugin(path: Path, script: str) -> dict[str, Any]:
    program = path.with_suffix(".plugin")
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    return {"exec": {"apiVersion": V1, "command": str(program)}}


def test_the_library_continues_without_credentials(python: Path, path: Path) -> None:
    """The API server then treats the request as system:anonymous, and no message says why."""
    empty = path.with_suffix(".token")
    empty.touch()
    anonymous = {"token": False, "verify": True, "server_name": None}
    users: list[dict[str, Any]] = [
        plugin(path, "echo no network >&2; exit 3"),
        {"exec": {"apiVersion": V1, "command": "no-such-plugin"}},
        {"tokenFile": str(empty)},
        {"auth-provider": {"name": "oidc"}},
    ]
    for user in users:
        assert library(python, written(path, user)) == anonymous, user
    text = written(path, {"token": "x"}).read_text()
    path.write_text(text.replace('"user": "tests"', '"user": "none"'))
    assert library(python, path) == anonymous


def test_the_library_ignores_what_must_not_be_ignored(python: Path, path: Path) -> None:
    """It ignores impersonation. It takes the text "false" for true, and so does not verify the server."""
    assert library(python, written(path, {"token": "x", "as": "jane"}))["token"]
    insecure = {"insecure-skip-tls-verify": "false"}
    assert library(python, written(path, {"token": "x"}, **insecure))["verify"] is False
    named = library(python, written(path, {"token": "x"}, **{"tls-server-name": "kubernetes"}))
    assert named["server_name"] == (None if python == PYTHON else "kubernetes")


def test_the_library_waits_for_ever(python: Path, path: Path) -> None:
    """For an exec plugin, for a process that a plugin left behind, and for a named pipe."""
    pipe = path.with_suffix(".pipe")
    os.mkfifo(pipe)
    for what in ("exec sleep 5", "sleep 5 & echo", pipe):
        user = {"tokenFile": str(pipe)} if what == pipe else plugin(path, str(what))
        with pytest.raises(subprocess.TimeoutExpired):
            library(python, written(path, user), timeout=2)


def test_the_library_leaves_private_keys_in_tmp(python: Path, path: Path) -> None:
    """The keys stay there unless the process ends in an orderly way."""
    key = base64.b64encode(b"a private key").decode()
    library(python, written(path, {"client-certificate-data": key, "client-key-data": key}), "killed")
    assert [file.read_bytes() for file in (path.parent / "tmp").iterdir() if file.is_file()] == [b"a private key"]


def test_the_librarys_encoding_of_a_guard_fails(cluster: Cluster, path: Path, python: Path) -> None:
    for text in ("<", "é"):
        node = cluster.create_node()
        cluster.admin.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"a": text}}})
        config = str(cluster.kubeconfig(node_user(node), path))
        guard = json.dumps([{"op": "test", "path": "/metadata/annotations/a", "value": text}])
        assert library(python, Path(config), guard, node)["status"] == 422

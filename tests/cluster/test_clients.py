"""The commands work with each version of the client that a node may have, and with each kind of credentials."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.agent import AGENT, ANNOTATION, DONGLE, our_events, published_on
from tests.cluster.clients import ALL, URLLIB3, VERSIONS, client
from tests.cluster.controlplane import BASE_CAPACITY, Cluster
from tests.cluster.credentials import Authority, kubeconfig, node_user
from tests.cluster.proxy import Exchange, Proxy
from tests.cluster.service import Service
from tests.cluster.test_fleet import fleet
from tests.support.nodes import UID
from tests.support.server import serve
from tests.support.tls import answers, certificate, closes_after_client_hello, plain_http, serve_tls
from tests.unit.node.test_api_node import respond

# All versions with the newest urllib3, and the oldest version with the old urllib3. tests.cluster.matrix has the
# other pairs. The mark whole excludes all but the oldest and the newest pair from `make ci`.
CLIENTS = [(version, urllib3) for version, urllib3 in ALL if urllib3 == URLLIB3[-1] or version == VERSIONS[0]]
CLIENT_PARAMS = [
    pytest.param(pair, id="-".join(pair), marks=[] if pair in (ALL[0], ALL[-1]) else pytest.mark.whole)
    for pair in CLIENTS
]


@pytest.fixture(scope="module", params=CLIENT_PARAMS)
def python(request: pytest.FixtureRequest) -> Path:
    """A Python with one of these pairs of versions."""
    return client(*request.param)


def test_fleet(cluster: Cluster, service: Service, python: Path) -> None:
    node = service.node
    service.cli("apply", status=0)
    selector = f"kubernetes.io/hostname={node}"
    fleet(cluster.admin_kubeconfig, "-l", selector, status=0, python=python)
    cluster.set_capacity(node, {DONGLE: "0"})
    changed = fleet(cluster.admin_kubeconfig, "-l", selector, "--json", status=4, python=python)
    (finding,) = json.loads(changed.stdout)["findings"]
    assert (finding["node"], finding["reason"]) == (node, "NotAsPublished")


def test_apply_plan_and_withdraw(cluster: Cluster, service: Service, python: Path) -> None:
    """The commands get a token first (as from an exec plugin), then a certificate."""
    service.python = python
    assert json.loads(service.cli("plan", "--json", status=0).stdout)["changes"][0]["desired"] == 1
    service.requests()
    service.cli("apply", status=0)
    assert [request.verb for request in service.requests()].count("patch") == 1, "one PATCH has everything"
    document = cluster.node(service.node)
    assert document["status"]["capacity"] == {**BASE_CAPACITY, DONGLE: "1"}
    assert published_on(document) == {DONGLE: 1}
    assert [entry["manager"] for entry in document["metadata"]["managedFields"]].count("capacityd") == 1
    cluster.kubeconfig(node_user(service.node), service.kubeconfig, credentials="certificate")
    service.cli("withdraw", status=0)
    document = cluster.node(service.node)
    assert document["status"]["capacity"] == BASE_CAPACITY
    assert ANNOTATION not in document["metadata"].get("annotations", {})
    assert "capacityd" not in [entry["manager"] for entry in document["metadata"]["managedFields"]]
    assert our_events(cluster, service.node) == [
        f"{DONGLE}: none → 1 (newly published)",
        "all configured resources are published",
        f"{DONGLE}: 1 → none (withdrawn)",
    ]


def test_every_version_distinguishes_a_failed_guard_from_a_rejection(
    cluster: Cluster, proxy: Proxy, service: Service, python: Path
) -> None:
    """The versions raise different exceptions. capacityd must raise the same error with all of them."""
    service.python = python
    service.connect(proxy.url)
    service.join(proxy.url)

    def change_node_first(exchange: Exchange) -> None:
        cluster.set_capacity(service.node, {DONGLE: "9"})
        exchange.relay()

    proxy.actions.append(change_node_first)
    service.requests()
    service.cli("apply", status=4)
    assert [request.code for request in service.requests() if request.verb == "patch"] == [409, 200]
    assert service.capacity() == "9"
    cluster.admin.delete(f"/api/v1/nodes/{service.node}")
    assert f'has no Node "{service.node}"' in service.cli("apply", status=1).stderr
    service.kubeconfig.write_text(service.kubeconfig.read_text().replace("secret-of", "not-the-secret-of"))
    assert "rejected the credentials" in service.cli("apply", status=3).stderr


# A program that makes three requests with each kubeconfig, and prints the errors. Its first argument is AGENT.
_THREE_REQUESTS = f"""
import sys
sys.path.insert(0, sys.argv[1])
from capacityd.model.errors import NodeError
from capacityd.model.node import Patch
from capacityd.node.identity import Machine
from capacityd.node.api_node import ApiNode
patch = Patch("{UID}", "1")
for path in sys.argv[2:]:
    node = ApiNode(path, None, Machine("host", None))
    for ask in (node.identify, node.read, lambda: node.write(patch)):
        try:
            ask()
        except NodeError as e:
            print(e)
"""


def test_every_version_explains_tls_errors(tmp_path: Path, python: Path) -> None:
    """Newer versions of the client, and of urllib3, raise other exceptions."""
    authority, other = Authority.create(tmp_path / "authority"), Authority.create(tmp_path / "other")
    expired = certificate(authority, "expired", days=-1)
    named = certificate(authority, "named", names="DNS:elsewhere.example")
    faults = {  # a part of the message, and the server that causes it
        "Is the certificate-authority in the same file": answers(respond, other.server()),
        "certificate has expired": answers(respond, expired),
        "presented a certificate for other names": answers(respond, named),
        "rejected the client certificate": answers(respond, authority.server(), other.ca_file),
        "it ended the TLS handshake": closes_after_client_hello,
        "(WRONG_VERSION_NUMBER)": plain_http,
    }
    command: list[str | Path] = [python, "-I", "-c", _THREE_REQUESTS, AGENT]
    with ExitStack() as servers:
        for number, behave in enumerate(faults.values()):
            server = servers.enter_context(serve_tls(behave))
            path = tmp_path / f"{number}.conf"
            path.write_text(kubeconfig(server.url, authority.ca_file, {"token": "secret"}))
            command.append(path)
        process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert len(lines) == 3 * len(faults), process.stdout
    for number, message in enumerate(faults):
        for line in lines[3 * number : 3 * number + 3]:
            assert message in line


def test_every_version_uses_the_proxy_of_the_kubeconfig_only(tmp_path: Path, python: Path) -> None:
    """Newer versions also use HTTPS_PROXY and NO_PROXY from the environment."""
    path = tmp_path / "kubelet.conf"
    command: list[str | Path] = [python, "-I", "-c", _THREE_REQUESTS, AGENT, path]
    with serve(respond) as server:
        for proxy in (None, server.url):
            # No server has this address. The proxy answers in its place.
            document = json.loads(kubeconfig("http://192.0.2.1:1" if proxy else server.url, Path("/dev/null"), {}))
            document["clusters"][0]["cluster"] |= {"certificate-authority": "", "proxy-url": proxy}
            path.write_text(json.dumps(document))
            environment = {"NO_PROXY": "192.0.2.1"} if proxy else {"HTTP_PROXY": "http://127.0.0.1:1"}
            process = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
            assert (process.stdout, process.stderr) == ("", "")
    assert len(server.received) == 2 * 3, "three requests in each of the two runs"

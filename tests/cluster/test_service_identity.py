"""The service asks once who it is, however often the credentials change, and again after each denial."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from capacityd.model.reasons import Job
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import Credentials, groups_of, kubeconfig, node_user, token_of
from tests.cluster.processes import PATIENCE
from tests.cluster.service import PROMPT, Service, service
from tests.cluster.test_requests import GET, WHO, counted
from tests.cluster.versions import OWN_NODE_ONLY
from tests.support.machines import usb_device
from tests.support.workers import job_line, messages_of, pass_result

PASSES = 8
_VERSION = "client.authentication.k8s.io/v1"
_PLUGIN = """\
#!/bin/sh
cd "$(dirname "$0")"
read -r next <next
echo $((next + 1)) >next
cat "credential.$next"
"""


class Plugin:
    """An exec plugin that returns a different credential for each call."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        folder.mkdir()
        self._cluster = cluster
        self._folder = folder
        self.count = 0
        (folder / "plugin").write_text(_PLUGIN)
        (folder / "plugin").chmod(0o700)
        (folder / "next").write_text("0\n")

    @property
    def calls(self) -> int:
        return int((self._folder / "next").read_text())

    def issue(self, node: str, count: int, kind: Credentials = "certificate") -> None:
        """Adds new certificates (or tokens) of this Node's user. The next calls return them, one for each call."""
        user = node_user(node)
        (self._folder / "next").write_text(f"{self.count}\n")
        for number in range(self.count, self.count + count):
            if kind == "certificate":
                pem = self._folder / f"client-{number}.pem"
                text = self._cluster.authority.client(user, groups_of(user), pem).read_text()
                certificate, _, key = text.partition("-----BEGIN EC")
                status = {"clientCertificateData": certificate, "clientKeyData": f"-----BEGIN EC{key}"}
            else:
                status = {"token": token_of(user)}
            credential = {"apiVersion": _VERSION, "kind": "ExecCredential", "status": status}
            (self._folder / f"credential.{number}").write_text(json.dumps(credential))
        self.count += count

    def kubeconfig(self) -> str:
        entry = {"apiVersion": _VERSION, "command": str(self._folder / "plugin"), "interactiveMode": "Never"}
        return kubeconfig(self._cluster.url, self._cluster.ca_file, {"exec": entry})


@pytest.fixture
def known(cluster: Cluster) -> Iterator[tuple[Service, Plugin]]:
    """A stopped service that has published; its state folder is still there."""
    with service(cluster, usb_device("1-1")) as s:
        plugin = Plugin(cluster, s.folder / "plugin")
        plugin.issue(s.node, 2 * PASSES)
        s.kubeconfig.write_text(plugin.kubeconfig())
        with cluster.audit.requests(node_user(s.node)) as requests:
            s.start()
            s.stop()
        assert counted(requests)[WHO] == 1
        yield s, plugin


def run_passes(s: Service, count: int = PASSES, memory: str = "") -> str:
    """Runs this many passes one after the other, with the reason "resync". memory: of the pass before.

    Returns the memory of the last pass.
    """
    for _ in range(count):
        job = job_line(Job.RECONCILE, "resync", memory=memory)
        made = subprocess.run(s.worker(), input=job, capture_output=True, text=True, timeout=PATIENCE).stdout
        memory = pass_result(messages_of(made)).memory
    return memory


def test_each_pass_has_other_credentials(cluster: Cluster, known: tuple[Service, Plugin]) -> None:
    s, plugin = known
    calls = plugin.calls
    with cluster.audit.requests(node_user(s.node)) as requests:
        run_passes(s)
    assert plugin.calls == calls + PASSES
    assert counted(requests) == {GET: PASSES, WHO: 1}


@pytest.mark.protocol
@pytest.mark.parametrize("kind", ["certificate", "token"])
@pytest.mark.parametrize(
    "refused",
    [
        pytest.param([("get", 403)], marks=pytest.mark.since(OWN_NODE_ONLY)),
        pytest.param([("get", 200), ("patch", 403)], marks=pytest.mark.before(OWN_NODE_ONLY)),
    ],
)
def test_credentials_of_another_node(
    cluster: Cluster, known: tuple[Service, Plugin], kind: Credentials, refused: list[tuple[str, int]]
) -> None:
    """The plugin returns another Node's credentials. A refusal by the API server reveals the change."""
    s, plugin = known
    plugin.issue(s.node, 5, kind)
    memory = run_passes(s, 1)
    other, before = cluster.create_node(), cluster.node(s.node)
    plugin.issue(other, 5, kind)
    s.machine.plug("1-2")
    with cluster.audit.requests(node_user(other)) as requests:
        run_passes(s, 2, memory)
    made = [(r.verb, r.name, r.code) for r in requests.all() if r.resource != "events"]
    # The plugin then returns another certificate, with which the service retries the refused request once.
    made = [one for one, before in zip(made, [None, *made], strict=False) if one != before or one[2] != 403]
    first = [*((verb, s.node, code) for verb, code in refused), ("create", "", 201), ("get", other, 200)]
    assert made[: len(first)] == first, made
    assert {name for _, name, _ in made[len(first) :]} == {other}
    assert cluster.capacity(other)["example.com/dongle"] == "2"
    assert cluster.node(s.node) == before


def test_a_user_that_may_do_nothing(cluster: Cluster, known: tuple[Service, Plugin]) -> None:
    """After each denial, the next pass asks again who it is."""
    s, _ = known
    pem = s.folder / "nobody.pem"
    cluster.authority.client("nobody", [], pem)
    s.kubeconfig.write_text(
        kubeconfig(cluster.url, cluster.ca_file, {"client-certificate": str(pem), "client-key": str(pem)})
    )
    with cluster.audit.requests("nobody") as requests:
        run_passes(s, 5)
    assert counted(requests) == {WHO: 5, GET: 5}


def test_a_renamed_machine(cluster: Cluster) -> None:
    """The kubelet joins again under another name: the kubeconfig stays, the file of the certificate is replaced."""
    with service(cluster, usb_device("1-1")) as s:
        pem = s.folder / "kubelet-client-current.pem"
        cluster.authority.client(node_user(s.node), groups_of(node_user(s.node)), pem)
        s.kubeconfig.write_text(
            kubeconfig(cluster.url, cluster.ca_file, {"client-certificate": str(pem), "client-key": str(pem)})
        )
        s.start()
        s.wait_capacity("1")
        other = cluster.create_node()
        renewed = s.folder / "kubelet-client-new.pem"
        cluster.authority.client(node_user(other), groups_of(node_user(other)), renewed)
        with cluster.audit.requests(node_user(other)) as requests:
            renewed.rename(pem)
            s.wait(lambda: cluster.capacity(other).get(DONGLE) == "1", PROMPT, "the Node has the new name")
        assert [r for r in requests.all() if r.code == 403] == []

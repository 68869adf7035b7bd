"""Problems that people reported with other clients of a cluster. tests/reports.md lists the reports."""

from __future__ import annotations

import json
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import NodeMissing, NodeUnauthorized
from capacityd.node import kubelet_kubeconfig
from capacityd.node.errors import Call, from_http_status
from capacityd.node.kubeconfig import load
from capacityd.node.tls import tls_context
from capacityd.worker import metrics
from kubectl_capacityd.cluster.documents.pod_requests import sum_requests
from kubectl_capacityd.cluster.fleet_file import read_fleet_file
from kubectl_capacityd.cluster.operator_kubeconfig import load_operators
from kubectl_capacityd.fleet.assess import FleetReport, ResourceSummary
from kubectl_capacityd.fleet.metrics import metrics_text
from tests.cluster.credentials import Authority
from tests.support.tls import certificate
from tests.unit.kubectl.test_fleet_file import node, saved
from tests.unit.kubectl.test_node_list import DONGLE, LABEL
from tests.unit.node.test_credentials import config, credential, with_plugin, written
from tests.unit.worker.test_metrics import CONFIG, STATUS

DONGLES = ResourceSummary(DONGLE, nodes=1, capacity=4, allocatable=4, usual=4, requested=3, free=1, waiting=0)
REPORT = FleetReport(nodes=1, resources=(DONGLES,), findings=())


def test_the_kubelets_renewed_certificate_is_named_if_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet itself uses its renewed certificate, even if its kubeconfig contains the expired first one."""
    pem = tmp_path / "kubelet-client-current.pem"
    monkeypatch.setattr(kubelet_kubeconfig, "_RENEWED_CERTIFICATE", str(pem))
    for exists in (False, True):
        advice = kubelet_kubeconfig.credentials_advice()
        assert (f"The kubelet's newest certificate is in {pem}" in advice) is exists
        pem.touch()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_list_that_powershell_has_saved_is_read(tmp_path: Path, encoding: str) -> None:
    """PowerShell's > writes UTF-16, its Out-File UTF-8 with a byte order mark."""
    path = Path(saved(tmp_path, {"kind": "List", "items": [node("knoten-ä")]}))
    path.write_bytes(path.read_text().encode(encoding))
    assert [n.name for n in read_fleet_file(str(path), LABEL).nodes] == ["knoten-ä"]


def test_metrics_of_two_fleets_do_not_collide() -> None:
    """node_exporter rejects a series that is in another file too, and a metric with two help texts."""
    files = [metrics_text(REPORT, context).decode().splitlines() for context in ("prod", "test")]
    series = [line.rpartition(" ")[0] for file in files for line in file if not line.startswith("#")]
    assert len(series) == len({*series})
    comments = [{line for line in file if line.startswith("#")} for file in files]
    assert comments[0] == comments[1]


@pytest.mark.parametrize("context", ['a"b', "a\\b", "arn:aws:eks:eu-west-1:1:cluster/a b", "größe"])
def test_node_exporter_can_parse_the_metrics(context: str) -> None:
    """The file uses only types of Prometheus' text format, and no timestamps: old timestamps would be rejected."""
    texts = [metrics_text(REPORT, context).decode(), metrics.metrics_text(CONFIG, STATUS).decode()]
    families = [family for text in texts for family in text_string_to_metric_families(text)]
    samples = [sample for family in families for sample in family.samples]
    assert {sample.labels.get("context") for sample in samples} == {context, None}
    assert {family.type for family in families} == {"gauge"}
    assert {sample.timestamp for sample in samples} == {None}


def test_null_is_the_same_as_nothing(tmp_path: Path) -> None:
    """Servers written in Go send null for an empty list."""
    nothing = dict.fromkeys(("labels", "annotations", "ownerReferences"))
    status = {**dict.fromkeys(("addresses", "conditions", "nodeInfo")), "images": [{"names": None}]}
    items = [
        {"kind": "Node", "metadata": {"name": "n1", **nothing}, "spec": None, "status": status},
        {"kind": "Node", "metadata": {"name": "n2"}, "spec": {"taints": None}, "status": None},
        {
            "kind": "Pod",
            "spec": {
                "nodeName": "n1",
                **dict.fromkeys(("initContainers", "overhead", "resources")),
                "containers": [
                    {"resources": None},
                    {"resources": {"requests": None}},
                    {"resources": {"requests": {"example.com/dongle": "1"}}},
                ],
            },
            "status": None,
        },
    ]
    fleet = read_fleet_file(saved(tmp_path, {"kind": "List", "metadata": None, "items": items}), LABEL)
    assert [n.name for n in fleet.nodes] == ["n1", "n2"]
    assert fleet.requests == sum_requests([("n1", {"example.com/dongle": 1})])


def test_a_missing_node_has_advice_about_a_new_name() -> None:
    body = json.dumps({"kind": "Status", "details": {"kind": "nodes"}}).encode()
    error = from_http_status(404, body, Call("get", "nodes"), ClusterAccess("k", "https://192.0.2.1"))
    assert isinstance(error, NodeMissing)
    for advice in (
        "uses another name (--hostname-override), set --node-name",
        "kubeconfig is still that of the old name",
    ):
        assert advice in str(error)


@pytest.mark.parametrize(
    ("server", "valid"), [("https://2001:db8::1:6443", False), ("https://[2001:db8::1]:6443", True)]
)
def test_an_ipv6_address_needs_brackets(tmp_path: Path, server: str, valid: bool) -> None:
    path = written(tmp_path, config({"server": server}, {"token": "t"}))
    if valid:
        assert load(path).server == server
        return
    with pytest.raises(NodeUnauthorized, match="or https://\\[2001:db8::1\\]:6443"):
        load(path)


@pytest.mark.parametrize(("mode", "interactive"), [("IfAvailable", True), ("Always", True), ("Never", False)])
def test_an_exec_plugin_can_ask_an_operator_for_a_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mode: str, interactive: bool
) -> None:
    """On a terminal, an operator sees the plugin's output, and can answer."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    script = f"echo enter the code >&2; echo '{credential(token='t')}'; echo \"$KUBERNETES_EXEC_INFO\" >{tmp_path}/info"
    path = with_plugin(tmp_path, script, interactiveMode=mode)
    assert load_operators(path).token == "t"
    assert ("enter the code" in capfd.readouterr().err) is interactive
    assert json.loads((tmp_path / "info").read_text())["spec"]["interactive"] is interactive
    if mode != "Always":
        assert load(path).token == "t"
        assert capfd.readouterr().err == "", "the service has no terminal"


@pytest.mark.parametrize("server", ["[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "127.0.0.1"])
def test_every_form_of_an_address_is_the_one_in_a_certificate(tmp_path: Path, server: str) -> None:
    authority = Authority.create(tmp_path / "ca")
    pair = certificate(authority, "server", "IP:::1,IP:127.0.0.1")
    access = ClusterAccess("k", f"https://{server}:6443", authority=authority.ca_file.read_text())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    client = tls_context(access, access.authority)
    handshake(client, context, server.strip("[]"))
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(client, context, "192.0.2.1")


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, server_name: str) -> None:
    """Makes a TLS handshake with both ends in this process. Raises the client's error."""
    request, response = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_end = client.wrap_bio(response, request, server_hostname=server_name)
    server_end = server.wrap_bio(request, response, server_side=True)
    for end in (client_end, server_end):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    client_end.do_handshake()

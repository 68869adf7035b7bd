"""The Node on a real API server: who we are, what we may, what comes back when something is wrong."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.errors import NodeConflict, NodeDenied, NodeError, NodeMissing, NodeRejected, NodeUnreachable
from capacityd.model.node import ANNOTATION, CONDITION, Event, Node
from capacityd.node import open_node
from capacityd.node.api_node import ApiNode
from capacityd.node.client import Client
from capacityd.node.kubeconfig import load
from tests.cluster import faults
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN, Authority, Credentials, node_user
from tests.cluster.faults import Action
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.proxy import Proxy, fault_proxy
from tests.cluster.versions import BOUND_TOKENS, OWN_NODE_ONLY

pytestmark = pytest.mark.protocol

KEY = "/status/capacity/example.com~1x"
RECORD = "/metadata/annotations/" + ANNOTATION.replace("/", "~1")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
CONDITION_VALUE = {
    "type": CONDITION,
    "status": "True",
    "reason": "Published",
    "message": "m",
    "lastHeartbeatTime": "2026-01-02T03:04:05Z",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}
WHOLE_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"),
    *("kubeProxyVersion", "operatingSystem", "architecture"),
)


def check(path: str, value: object) -> dict[str, object]:
    return {"op": "test", "path": path, "value": value}


def add(path: str, value: object) -> dict[str, object]:
    return {"op": "add", "path": path, "value": value}


def opened(kubeconfig: Path, name: str | None = None, machine_id: str | None = None) -> Node:
    return open_node(str(kubeconfig), name, "no-such-host", machine_id)


def node_info(machine_id: str) -> dict[str, Any]:
    return {"nodeInfo": {**dict.fromkeys(WHOLE_INFO, ""), "machineID": machine_id}}


def changed(kubeconfig: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    document = json.loads(kubeconfig.read_text())
    change(document)
    kubeconfig.write_text(json.dumps(document))
    return kubeconfig


@pytest.mark.parametrize("credentials", ["token", "certificate", "exec"])
def test_read_and_write_as_the_node(cluster: Cluster, node: str, credentials: Credentials) -> None:
    api_node = opened(cluster.kubeconfig(node_user(node), credentials=credentials))
    assert api_node.name == node
    state = api_node.read()
    assert (state.name, state.has_annotations, state.conditions) == (node, False, None)
    assert state.uid == cluster.node(node)["metadata"]["uid"]
    patch = [check("/metadata/uid", state.uid), check(KEY, None), add(KEY, "1000")]
    patch += [check("/metadata/annotations", None), add("/metadata/annotations", {ANNOTATION: "{}"})]
    patch += [check("/status/conditions", None), add("/status/conditions", [CONDITION_VALUE])]
    state = api_node.write(patch)
    assert state.capacity is not None
    assert state.capacity["example.com/x"] == "1k", "as stored"
    assert (state.annotation, state.conditions) == ("{}", 1)
    assert state.condition is not None
    assert state.condition.stored == CONDITION_VALUE
    assert api_node.read() == state
    api_node.write([check("/status/conditions/0", dict(state.condition.stored)), check(KEY, "1k")])


def test_one_call_is_one_request(cluster: Cluster, node: str) -> None:
    api_node = opened(cluster.kubeconfig(node_user(node)))
    with cluster.audit.requests(user=node_user(node)) as requests:
        api_node.report(Event("Normal", "Reason", "x"), api_node.write([add(KEY, "1")]))
        assert [(r.verb, r.resource, r.subresource, r.code) for r in requests.all()] == [
            ("create", "selfsubjectreviews", "", 201),
            ("get", "nodes", "", 200),
            ("patch", "nodes", "status", 200),
            ("create", "events", "", 201),
        ]
        assert all(r.user_agent.startswith("capacityd/") for r in requests.all())
    managers = {field["manager"]: field for field in cluster.node(node)["metadata"]["managedFields"]}
    assert managers["capacityd"]["subresource"] == "status"


def test_a_failed_guard_and_an_invalid_value_are_distinguished(cluster: Cluster, node: str) -> None:
    api_node = opened(cluster.kubeconfig(node_user(node)))
    for guard in (check(KEY, "1"), check("/metadata/uid", "other"), check("/status/capacity/cpu", None)):
        with pytest.raises(NodeConflict):
            api_node.write([guard, add(KEY, "1")])
    with pytest.raises(NodeConflict):
        api_node.write([{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}, add(KEY, "1")])
    for value in ("-1", "1.5", "abc", {"a": "b"}):
        with pytest.raises(NodeRejected):
            api_node.write([add(KEY, value)])
    with pytest.raises(NodeRejected, match=r"\(HTTP 422\)"):
        api_node.write([add("/metadata/annotations", {ANNOTATION: "x" * 300_000})])
    with pytest.raises(NodeRejected, match=r"\(HTTP 413\)"):
        api_node.write([check("/metadata/name", node)] * 10_001)
    assert "example.com/x" not in cluster.capacity(node)


def test_guards_for_what_is_absent(cluster: Cluster) -> None:
    bare = cluster.create_node(capacity=None)
    api_node = opened(cluster.kubeconfig(node_user(bare)))
    state = api_node.read()
    assert (state.capacity, state.allocatable, state.has_annotations, state.conditions) == (None, None, False, None)
    for path in (KEY, RECORD, "/status/conditions/0"):
        with pytest.raises(NodeConflict):
            api_node.write([check(path, None)])
    patch = [check("/status/capacity", None), add("/status/capacity", {"example.com/x": "1"})]
    patch += [check("/metadata/annotations", None), add("/metadata/annotations", {"other": "y"})]
    patch += [check("/status/conditions", None), add("/status/conditions", [{"type": "Ready", "status": "True"}])]
    assert api_node.write(patch).capacity == {"example.com/x": "1"}
    api_node.write([check(RECORD, None), check("/status/capacity/other", None)])


def test_a_list_has_nothing_beyond_its_end_that_could_be_tested(cluster: Cluster) -> None:
    """So an append is guarded by a test on the whole list: a type can stand in it twice."""
    name = cluster.create_node(status={"conditions": [{"type": "Ready", "status": "True"}]})
    api_node = opened(cluster.kubeconfig(node_user(name)))
    for place in ("1", "-"):
        with pytest.raises(NodeConflict):
            api_node.write([check(f"/status/conditions/{place}", None)])
    whole = cluster.node(name)["status"]["conditions"]
    append = [check("/status/conditions", whole), add("/status/conditions/-", CONDITION_VALUE)]
    assert api_node.write(append).conditions == 2
    with pytest.raises(NodeConflict):
        api_node.write(append)
    assert api_node.write(append[1:]).conditions == 3


@pytest.mark.since(OWN_NODE_ONLY)
def test_another_nodes_node_is_not_read(cluster: Cluster, node: str) -> None:
    mine = cluster.create_node()
    asked = Client(load(str(cluster.kubeconfig(node_user(mine)))))
    asked.identity = node_user(mine)
    denied = f'the identity "system:node:{mine}" may not get Node "{node}"'
    with pytest.raises(NodeDenied, match=f"{denied} .HTTP 403.: a kubelet's identity has access to its own"):
        asked.read_node(node)


@pytest.mark.before(OWN_NODE_ONLY)
def test_another_nodes_node_is_read(cluster: Cluster, node: str) -> None:
    mine = Client(load(str(cluster.kubeconfig(node_user(cluster.create_node())))))
    assert mine.read_node(node) == cluster.node(node)


def test_another_nodes_node(cluster: Cluster, node: str) -> None:
    mine = cluster.create_node()
    asked = Client(load(str(cluster.kubeconfig(node_user(mine)))))
    asked.identity = node_user(mine)
    denied = f'the identity "system:node:{mine}" may not '
    with pytest.raises(
        NodeDenied, match=f'{denied}patch nodes/status of Node "{node}" .HTTP 403.: a kubelet\'s identity'
    ):
        asked.patch_node_status(node, [add(KEY, "1")])
    with pytest.raises(NodeDenied, match=f'node_name is "{node}", but the credentials belong to Node "{mine}"'):
        opened(cluster.kubeconfig(node_user(mine)), node).read()


def test_no_such_node(cluster: Cluster) -> None:
    name = cluster.node_name()
    api_node = opened(cluster.kubeconfig(node_user(name)))
    for use in (api_node.read, lambda: api_node.write([add(KEY, "1")])):
        with pytest.raises(
            NodeMissing, match=f'API server {cluster.url} has no Node "{name}" .HTTP 404.. Has the kubelet'
        ):
            use()
    assert isinstance(api_node, ApiNode)
    cluster.create_node(name)
    assert api_node.read().name == name


def test_a_recreated_node_is_not_the_one_that_was_read(cluster: Cluster, node: str) -> None:
    api_node = opened(cluster.kubeconfig(node_user(node)))
    state = api_node.read()
    cluster.admin.delete(f"/api/v1/nodes/{node}")
    cluster.create_node(node)
    with pytest.raises(NodeConflict):
        api_node.write([check("/metadata/uid", state.uid), add(KEY, "1")])


def test_the_event_is_among_those_of_the_node(cluster: Cluster, node: str) -> None:
    config = cluster.kubeconfig(node_user(node))
    api_node = opened(config)
    api_node.report(Event("Warning", "CapacityRefused", "example.com/x: a → b " + "x" * 2000), api_node.read())
    (event,) = cluster.events_of(node)
    assert (event["type"], event["reason"], event["reportingComponent"]) == ("Warning", "CapacityRefused", "capacityd")
    assert event["source"] == {"component": "capacityd", "host": node}
    assert event["message"].startswith("example.com/x: a → b ")


# Our identity.


def test_a_certificate_of_any_name(cluster: Cluster) -> None:
    name = cluster.create_node(f"by-certificate-{cluster.node_name()}")
    assert opened(cluster.kubeconfig(node_user(name), credentials="certificate")).read().name == name


def test_another_identity_needs_the_machines_own_id(cluster: Cluster) -> None:
    name = cluster.create_node(status=node_info("abc"))
    config = cluster.kubeconfig(ADMIN)
    assert opened(config, name, "abc").write([add(KEY, "1")]).machine_id == "abc"
    with pytest.raises(
        NodeDenied, match=f'Node "{name}" belongs to another machine: its machineID is abc, this machine\'s is x'
    ):
        opened(config, name, "x").write([add(KEY, "2")])
    assert cluster.capacity(name)["example.com/x"] == "1"
    with pytest.raises(NodeMissing, match='no Node "no-such-host"'):
        opened(config, None, "abc").read()
    assert opened(cluster.kubeconfig(node_user(name)), None, "x").read().machine_id == "abc"


def test_exactly_the_right_that_is_missing_is_named(cluster: Cluster, node: str) -> None:
    user = f"agent-of-{node}"
    config = cluster.kubeconfig(user, credentials="certificate")

    def grant(verb: str, resource: str) -> None:
        role = {
            "metadata": {"name": f"{user}-{verb}"},
            "rules": [{"apiGroups": [""], "verbs": [verb], "resources": [resource]}],
        }
        cluster.admin.create(f"{RBAC}/clusterroles", role)
        binding = {
            "metadata": {"name": f"{user}-{verb}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{user}-{verb}"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        cluster.admin.create(f"{RBAC}/clusterrolebindings", binding)

    api_node = opened(config, node)
    with pytest.raises(NodeDenied, match=f'"{user}" may not get Node .* needs a role with the verb "get" on "nodes"'):
        api_node.read()
    grant("get", "nodes")
    state = _soon(api_node.read)
    with pytest.raises(NodeDenied, match=r'needs a role with the verb "patch" on "nodes/status"\.'):
        api_node.write([add(KEY, "1")])
    grant("patch", "nodes/status")
    _soon(lambda: api_node.write([add(KEY, "1")]))
    with pytest.raises(NodeDenied, match='verb "create" on "events" in the namespace "default"'):
        api_node.report(Event("Normal", "Reason", "x"), state)
    grant("create", "events")
    _soon(lambda: api_node.report(Event("Normal", "Reason", "x"), state))


@pytest.mark.since(BOUND_TOKENS)
def test_a_token_that_is_bound_to_a_node_has_its_name(cluster: Cluster) -> None:
    name = cluster.create_node(status=node_info("abc"))
    account = f"agent-{name}"
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    cluster.admin.create(accounts, {"metadata": {"name": account}})
    bound = {"kind": "Node", "apiVersion": "v1", "name": name, "uid": cluster.node(name)["metadata"]["uid"]}
    request = {"spec": {"audiences": ["https://tests.example"], "boundObjectRef": bound}}
    token = cluster.admin.create(f"{accounts}/{account}/token", request)["status"]["token"]
    binding = {
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    }
    cluster.admin.create(f"{RBAC}/clusterrolebindings", binding)
    config = cluster.kubeconfig(ADMIN, token=token)
    api_node = opened(config, None, "abc")
    assert api_node.name == name
    assert _soon(api_node.read).name == name
    with pytest.raises(NodeDenied, match="belongs to another machine"):
        opened(config, None, "x").read()
    with pytest.raises(NodeDenied, match=f'but the credentials belong to Node "{name}"'):
        opened(config, "other").read()


def test_without_the_review_it_is_as_for_another_identity(cluster: Cluster, proxy: Proxy) -> None:
    name = cluster.create_node(status=node_info("abc"))
    config = cluster.kubeconfig(node_user(name), server=proxy.url, ca_file=proxy.ca_file)
    proxy.fault(faults.status(404), path="*/selfsubjectreviews", times=None)
    assert opened(config, name, "abc").read().name == name
    with pytest.raises(NodeDenied, match="belongs to another machine"):
        opened(config, name, "x").read()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(NodeDenied, "may not get Node .* own Node only", marks=pytest.mark.since(OWN_NODE_ONLY)),
        pytest.param(NodeMissing, "has no Node .*--hostname-override", marks=pytest.mark.before(OWN_NODE_ONLY)),
    ],
)
def test_without_the_review_the_host_name_must_be_the_nodes(
    cluster: Cluster, proxy: Proxy, error: type[NodeError], message: str
) -> None:
    name = cluster.create_node(status=node_info("abc"))
    config = cluster.kubeconfig(node_user(name), server=proxy.url, ca_file=proxy.ca_file)
    proxy.fault(faults.status(404), path="*/selfsubjectreviews", times=None)
    with pytest.raises(error, match=message.replace("Node ", 'Node "no-such-host" ', 1)):
        opened(config, None, "abc").read()


def _soon(use: Callable[[], Any]) -> Any:
    """The result, once the API server has noticed that a right was granted."""

    def granted() -> tuple[Any] | None:
        try:
            return (use(),)
        except NodeDenied:
            return None

    seen = wait_until(granted, PATIENCE, "the right is granted")
    assert seen is not None
    return seen[0]


# Access denied.


def test_unknown_credentials(cluster: Cluster) -> None:
    config = cluster.kubeconfig(ADMIN, token="secret-of-nobody")
    with pytest.raises(NodeDenied) as raised:
        opened(config).read()
    assert f"API server {cluster.url} rejected the credentials in {config} (HTTP 401)" in str(raised.value)
    assert "secret-of-nobody" not in str(raised.value)


def test_no_credentials_at_all(cluster: Cluster, node: str) -> None:
    config = changed(cluster.kubeconfig(ADMIN), lambda document: document["users"][0].update(user={}))
    with pytest.raises(NodeDenied, match="as system:anonymous"):
        opened(config, node).read()


def test_an_expired_client_certificate(cluster: Cluster, node: str, tmp_path: Path) -> None:
    config = cluster.kubeconfig(node_user(node), tmp_path / "kubeconfig", credentials="certificate")
    pem = tmp_path / "kubeconfig.pem"
    _make_expired(cluster.authority, pem, node)
    with pytest.raises(
        NodeDenied,
        match=r"rejected the credentials .* \(HTTP 401\): the client certificate expired on 20..-..-.. .* UTC",
    ):
        opened(config).read()


def test_a_client_certificate_of_another_authority(cluster: Cluster, node: str, tmp_path: Path) -> None:
    config = cluster.kubeconfig(node_user(node), tmp_path / "kubeconfig", credentials="certificate")
    Authority.create(tmp_path / "other").client(node_user(node), ["system:nodes"], tmp_path / "kubeconfig.pem")
    with pytest.raises(NodeDenied, match=r"\(HTTP 401\)|rejected the client certificate"):
        opened(config).read()


def test_a_certificate_that_was_renewed_meanwhile(cluster: Cluster, node: str, tmp_path: Path) -> None:
    config = cluster.kubeconfig(node_user(node), tmp_path / "kubeconfig", credentials="certificate")
    pem = tmp_path / "kubeconfig.pem"
    good = pem.read_text()
    _make_expired(cluster.authority, pem, node)
    api_node = opened(config)
    with pytest.raises(NodeDenied):
        api_node.read()
    pem.write_text(good)
    assert api_node.read().name == node


def test_a_server_of_another_authority(cluster: Cluster, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other")
    config = cluster.kubeconfig(ADMIN, ca_file=other.ca_file)
    with pytest.raises(
        NodeDenied, match=rf"the certificate authority in {config} did not sign \(.*\). Is it the right cluster"
    ):
        opened(config).read()


def test_a_server_of_another_name(cluster: Cluster, node: str) -> None:
    def name(expected: str) -> Callable[[dict[str, Any]], object]:
        return lambda document: document["clusters"][0]["cluster"].update({"tls-server-name": expected})

    assert opened(changed(cluster.kubeconfig(node_user(node)), name("localhost"))).read().name == node
    with pytest.raises(NodeDenied, match="certificate for other names"):
        opened(changed(cluster.kubeconfig(node_user(node)), name("kubernetes.example"))).read()


def test_only_the_authority_of_the_kubeconfig_is_trusted(cluster: Cluster, node: str) -> None:
    """Debian's urllib3 1.26 would add all that the system trusts, and any of those could stand in for the server."""
    made: list[ssl.SSLContext] = []
    create = ssl.create_default_context

    def remember(*arguments: Any, **options: Any) -> ssl.SSLContext:
        made.append(create(*arguments, **options))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", remember)
        api_node = opened(cluster.kubeconfig(node_user(node)))
        assert api_node.read().name == node
    assert [context.cert_store_stats()["x509"] for context in made] == [1]


def test_a_server_that_is_not_verified(cluster: Cluster, node: str, tmp_path: Path) -> None:
    blind = {"server": cluster.url, "insecure-skip-tls-verify": True}
    config = changed(
        cluster.kubeconfig(node_user(node)), lambda document: document["clusters"][0].update(cluster=blind)
    )
    assert opened(config).read().name == node


def test_an_admission_policy_that_denies_is_no_conflict(cluster: Cluster, node: str) -> None:
    name = f"deny-{node}"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}
            ]
        },
        "validations": [{"expression": f"object.metadata.name != '{node}'", "message": "not this one"}],
    }
    cluster.admin.create(f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": policy})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    cluster.admin.create(f"{POLICIES}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": binding})
    api_node = opened(cluster.kubeconfig(node_user(node)))

    def refusal() -> NodeError | None:
        try:
            api_node.write([add(KEY, "1"), {"op": "remove", "path": KEY}])
        except NodeError as e:
            return e
        return None

    error = wait_until(refusal, PATIENCE, "the API server has noticed the policy")
    assert isinstance(error, NodeRejected | NodeDenied)
    assert "not this one" in str(error)


# Unreachable.


@pytest.mark.parametrize(
    ("action", "carried_out", "message"),
    [
        (faults.reset(), False, "closed the connection"),
        (faults.reset(carried_out=True), True, "closed the connection"),
        (faults.half_answer(), True, ""),
        (faults.status(429, headers={"Retry-After": "7"}, carried_out=True), True, "is unavailable (HTTP 429)"),
    ],
)
def test_a_write_whose_response_is_lost(
    cluster: Cluster, proxy: Proxy, node: str, action: Action, carried_out: bool, message: str
) -> None:
    """Each other response that is unusable: tests/unit/node/test_api_node.py."""
    api_node = opened(cluster.kubeconfig(node_user(node), server=proxy.url, ca_file=proxy.ca_file))
    api_node.read()
    fault = proxy.fault(action, method="PATCH", times=None)
    with pytest.raises(NodeUnreachable) as raised:
        api_node.write([add(KEY, "1")])
    assert message in str(raised.value)
    assert raised.value.retry_after == (7.0 if "429" in message else None)
    assert len(fault.matched) == 1, "one call is one request"
    assert ("example.com/x" in cluster.capacity(node)) is carried_out
    proxy.faults.clear()
    assert api_node.read().name == node


def test_an_answer_that_never_ends(cluster: Cluster, proxy: Proxy, node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is that of the whole request, and the next request is not affected."""
    api_node = opened(cluster.kubeconfig(node_user(node), server=proxy.url, ca_file=proxy.ca_file))
    api_node.read()
    for method, act in (("GET", api_node.read), ("PATCH", lambda: api_node.write([add(KEY, "1")]))):
        proxy.fault(faults.drip(0.1), method)
        with monkeypatch.context() as patch:
            patch.setattr(api_node._client, "_timeout", 1.0)  # type: ignore[attr-defined]
            with pytest.raises(NodeUnreachable, match="did not complete its response within 1 s"):
                act()
    assert (api_node.read().capacity or {})["example.com/x"] == "1"


def test_no_tls_where_it_is_expected_and_the_other_way_round(cluster: Cluster, tmp_path: Path) -> None:
    # It responds in plain text and closes the connection, which may discard the text.
    with pytest.raises(NodeUnreachable, match=r"not an API server|closed the connection"):
        opened(cluster.kubeconfig(ADMIN, server=cluster.url.replace("https", "http"))).read()
    with fault_proxy(cluster, Authority.create(tmp_path / "other")) as other:
        config = cluster.kubeconfig(ADMIN, server=other.url)
        with pytest.raises(NodeDenied, match="did not sign"):
            opened(config).read()


def _make_expired(authority: Authority, pem: Path, node: str) -> None:
    """Replaces the certificate of a pair by one that ended yesterday."""
    request, certificate = pem.with_suffix(".csr"), pem.with_suffix(".crt")
    subject = f"/O=system:nodes/CN=system:node:{node}"
    configuration = f"{authority.folder}/openssl.cnf"
    _openssl("req", "-new", "-config", configuration, "-key", str(pem), "-subj", subject, "-out", str(request))
    signer = ["-CA", str(authority.ca_file), "-CAkey", f"{authority.folder}/ca.key", "-set_serial", "1"]
    _openssl("x509", "-req", "-in", str(request), "-days", "-1", *signer, "-out", str(certificate))
    key = pem.read_text().partition("-----BEGIN EC PRIVATE")
    pem.write_text(certificate.read_text() + key[1] + key[2])


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)

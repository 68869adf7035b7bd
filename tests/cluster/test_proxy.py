"""Each fault of the proxy is what it says it is, as a plain client sees it and as the API server does."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.cluster import faults
from tests.cluster.api import Api
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN, Authority, token_of
from tests.cluster.processes import PATIENCE, wait_until, workspace
from tests.cluster.proxy import Proxy, fault_proxy

HEADERS = {"Authorization": f"Bearer {token_of(ADMIN)}", "Content-Type": "application/merge-patch+json"}


@pytest.fixture
def client(proxy: Proxy) -> Iterator[http.client.HTTPSConnection]:
    connection = _client(proxy)
    yield connection
    connection.close()


def _client(proxy: Proxy) -> http.client.HTTPSConnection:
    host, _, port = proxy.url.removeprefix("https://").rpartition(":")
    tls = ssl.create_default_context(cafile=proxy.ca_file)
    return http.client.HTTPSConnection(host, int(port), timeout=PATIENCE, context=tls)


def _patch(client: http.client.HTTPSConnection, node: str, value: str) -> Any:
    """Write the annotation; the answer as read, raising what http.client raises."""
    client.request("PATCH", f"/api/v1/nodes/{node}", json.dumps({"metadata": {"annotations": {"a": value}}}), HEADERS)
    return json.loads(client.getresponse().read())


def _annotation(cluster: Cluster, node: str) -> str | None:
    value: str | None = cluster.node(node)["metadata"].get("annotations", {}).get("a")
    return value


def test_forwards_on_one_connection(
    cluster: Cluster, proxy: Proxy, node: str, client: http.client.HTTPSConnection
) -> None:
    client.connect()
    first = client.sock
    assert _patch(client, node, "1")["metadata"]["annotations"]["a"] == "1"
    assert _patch(client, node, "2")["metadata"]["annotations"]["a"] == "2"
    assert client.sock is first
    assert _annotation(cluster, node) == "2"
    assert [(request.method, request.path) for request in proxy.requests] == [("PATCH", f"/api/v1/nodes/{node}")] * 2
    assert json.loads(proxy.requests[0].body) == {"metadata": {"annotations": {"a": "1"}}}


def test_a_kubeconfig_leads_through_it(cluster: Cluster, proxy: Proxy, node: str) -> None:
    path = cluster.kubeconfig(f"system:node:{node}", server=proxy.url)
    entry = json.loads(path.read_text())
    api = Api(entry["clusters"][0]["cluster"]["server"], proxy.ca_file, entry["users"][0]["user"]["token"])
    assert api.get(f"/api/v1/nodes/{node}")["metadata"]["name"] == node
    assert len(proxy.requests) == 1


def test_refusing(proxy: Proxy, node: str, client: http.client.HTTPSConnection) -> None:
    _patch(client, node, "1")
    with proxy.refusing():
        with pytest.raises((ConnectionError, ssl.SSLEOFError)):
            _patch(client, node, "2")
        client.close()
        with pytest.raises(ConnectionRefusedError):
            client.connect()
    assert _patch(client, node, "3")["metadata"]["annotations"]["a"] == "3"


def test_reset(cluster: Cluster, proxy: Proxy, node: str, client: http.client.HTTPSConnection) -> None:
    fault = proxy.fault(faults.reset(), "PATCH")
    with pytest.raises(ConnectionResetError):
        _patch(client, node, "1")
    assert len(fault.matched) == 1
    assert _annotation(cluster, node) is None


def test_reset_after_it_was_carried_out(
    cluster: Cluster, proxy: Proxy, node: str, client: http.client.HTTPSConnection
) -> None:
    proxy.fault(faults.reset(carried_out=True), "PATCH")
    with pytest.raises(ConnectionResetError):
        _patch(client, node, "1")
    assert _annotation(cluster, node) == "1"


def test_half_answer(cluster: Cluster, proxy: Proxy, node: str, client: http.client.HTTPSConnection) -> None:
    proxy.fault(faults.half_answer(), "PATCH")
    with pytest.raises(http.client.IncompleteRead):
        _patch(client, node, "1")
    assert _annotation(cluster, node) == "1"


def test_stall(cluster: Cluster, proxy: Proxy, node: str, client: http.client.HTTPSConnection) -> None:
    proxy.fault(faults.stall(), "PATCH")
    client.timeout = 0.3
    with pytest.raises(TimeoutError):
        _patch(client, node, "1")
    assert _annotation(cluster, node) is None


def test_garbage(cluster: Cluster, proxy: Proxy, node: str, client: http.client.HTTPSConnection) -> None:
    proxy.fault(faults.garbage(), "PATCH")
    with pytest.raises(http.client.BadStatusLine):
        _patch(client, node, "1")
    assert _annotation(cluster, node) is None


def test_status(cluster: Cluster, proxy: Proxy, node: str, client: http.client.HTTPSConnection) -> None:
    fault = proxy.fault(faults.status(429, b"busy", {"Retry-After": "7"}), "PATCH", "/api/v1/nodes/*", times=2)
    for _ in range(2):
        client.request("PATCH", f"/api/v1/nodes/{node}", "{}", HEADERS)
        answer = client.getresponse()
        assert (answer.status, answer.headers["Retry-After"], answer.read()) == (429, "7", b"busy")
    assert _annotation(cluster, node) is None
    _patch(client, node, "1")
    assert _annotation(cluster, node) == "1", "the third is forwarded"
    assert len(fault.matched) == 2


def test_only_what_matches(cluster: Cluster, proxy: Proxy, node: str, client: http.client.HTTPSConnection) -> None:
    fault = proxy.fault(faults.reset(), "PATCH", "*/status", times=None)
    assert _patch(client, node, "1")["metadata"]["annotations"]["a"] == "1"
    assert not fault.matched
    for _ in range(3):
        client.close()
        client.request("PATCH", f"/api/v1/nodes/{node}/status?fieldManager=x", "{}", HEADERS)
        with pytest.raises(ConnectionResetError):
            client.getresponse()
    assert len(fault.matched) == 3


def test_before(cluster: Cluster, proxy: Proxy, node: str, client: http.client.HTTPSConnection) -> None:
    seen: list[str | None] = []

    def other(request: faults.Request) -> None:
        seen.append(_annotation(cluster, node))
        cluster.admin.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"a": "other", "b": "other"}}})

    proxy.fault(faults.before(other), "PATCH")
    annotations = _patch(client, node, "1")["metadata"]["annotations"]
    assert seen == [None]
    assert (annotations["a"], annotations["b"]) == ("1", "other")


def test_a_failing_callback_fails_the_test(cluster: Cluster, node: str) -> None:
    def fails(request: faults.Request) -> None:
        raise AssertionError("seen from the test")

    def use() -> None:
        with fault_proxy(cluster) as proxy:
            proxy.fault(faults.before(fails))
            with closing(_client(proxy)) as client, pytest.raises(http.client.RemoteDisconnected):
                _patch(client, node, "1")

    with pytest.raises(AssertionError, match="seen from the test"):
        use()


def test_hold(cluster: Cluster, proxy: Proxy, node: str, client: http.client.HTTPSConnection) -> None:
    go = threading.Event()
    fault = proxy.fault(faults.hold(go), "PATCH")
    thread = threading.Thread(target=_patch, args=(client, node, "1"))
    thread.start()
    wait_until(lambda: fault.matched, PATIENCE, "the request is held")
    assert _annotation(cluster, node) is None
    go.set()
    thread.join(PATIENCE)
    assert _annotation(cluster, node) == "1"


def test_delay(proxy: Proxy, node: str, client: http.client.HTTPSConnection) -> None:
    proxy.fault(faults.delay(10 * PATIENCE), "PATCH")
    client.timeout = 0.3
    with pytest.raises(TimeoutError):
        _patch(client, node, "1")
    client.close()
    proxy.fault(faults.delay(0.6), "PATCH")
    client.timeout = PATIENCE
    began = time.monotonic()
    assert _patch(client, node, "2")["metadata"]["annotations"]["a"] == "2"
    assert time.monotonic() - began >= 0.6


def test_an_authority_that_nobody_trusts(cluster: Cluster) -> None:
    with workspace() as folder, fault_proxy(cluster, Authority.create(folder / "other")) as proxy:
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            Api(proxy.url, cluster.ca_file, token_of(ADMIN)).get("/version")
        assert Api(proxy.url, proxy.ca_file, token_of(ADMIN)).get("/version")["gitVersion"] == "v1.36.3"

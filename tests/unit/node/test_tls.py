"""Every TLS fault becomes a NodeError after one attempt. test_certificates.py tests servers' certificates."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from pathlib import Path
from socket import socket

import pytest

from capacityd.model.errors import NodeError, NodeUnauthorized, NodeUnreachable
from capacityd.node.api_node import ApiNode
from capacityd.node.identity import Machine
from tests.cluster.credentials import Authority, kubeconfig
from tests.support import tls
from tests.support.nodes import node
from tests.support.server import read_request
from tests.support.tls import Behaviour, answers
from tests.unit.node.test_api_node import respond


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority in the kubeconfig."""
    return Authority.create(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The only authority whose clients the server accepts."""
    return Authority.create(tmp_path_factory.mktemp("tls") / "other")


MakeBehaviour = Callable[[Authority, Authority], Behaviour]
REFUSED = "rejected the client certificate"
FAULTS: dict[str, tuple[MakeBehaviour, type[NodeError], str]] = {  # behaviour, error, a part of the message
    "refuses-us": (lambda ours, other: answers(respond, ours.server(), other.ca_file), NodeUnauthorized, REFUSED),
    "closes": (lambda *_: tls.closes_after_client_hello, NodeUnreachable, "(it ended the TLS handshake)"),
    "resets": (lambda *_: tls.resets_after_client_hello, NodeUnreachable, "(Connection reset by peer)"),
    "plain-http": (lambda *_: tls.plain_http, NodeUnreachable, "(WRONG_VERSION_NUMBER)"),
}


@pytest.mark.parametrize(("make", "kind", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_tls_is_an_error_and_the_next_request_succeeds(
    authority: Authority, other: Authority, tmp_path: Path, make: MakeBehaviour, kind: type[NodeError], message: str
) -> None:
    pem = str(authority.client("system:node:n1", ["system:nodes"], tmp_path / "client.pem"))
    path = tmp_path / "kubelet.conf"
    with tls.serve_tls(make(authority, other)) as server:
        path.write_text(kubeconfig(server.url, authority.ca_file, {"client-certificate": pem, "client-key": pem}))
        api_node = ApiNode(str(path), None, Machine("host", None))
        with pytest.raises(NodeError) as raised:
            api_node.read()
        assert server.connections == 1, "one attempt"
        assert type(raised.value) is kind
        assert message in str(raised.value)
        assert f"the API server in {path}" in str(raised.value)
        assert str(raised.value).isprintable()
        server.behave = answers(respond, authority.server())
        assert api_node.read().name == "n1"


def test_a_connection_whose_response_ended_early_is_not_used_again(authority: Authority, tmp_path: Path) -> None:
    """The server ends the TLS session, but not the TCP connection, which therefore looks alive."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server())
    body = json.dumps(node(capacity={"cpu": "4"})).encode()
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    half = whole[: len(whole) // 2]
    responses = iter([half, whole])

    def behave(connection: socket) -> None:
        with context.wrap_socket(connection, server_side=True) as tls_connection:
            request = read_request(tls_connection.makefile("rb"))
            assert request
            response = respond(request) if request.method == "POST" else next(responses)
            tls_connection.sendall(response)
            if response == half:
                tls_connection.unwrap()  # waits until the client ends the connection as well

    with tls.serve_tls(behave) as server:
        path = tmp_path / "kubelet.conf"
        path.write_text(kubeconfig(server.url, authority.ca_file, {"token": "t"}))
        api_node = ApiNode(str(path), None, Machine("host", None))
        assert api_node.identify() == "n1"
        with pytest.raises(NodeUnreachable, match="incomplete"):
            api_node.read()
        assert api_node.read().capacity == {"cpu": "4"}

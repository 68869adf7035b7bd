"""Servers are accepted whose certificates client-go accepts.

tests/cluster/test_client_go.py runs client-go on the same table.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from socket import socket

import pytest

from capacityd.model.errors import NodeUnauthorized
from capacityd.node import open_node
from capacityd.node.kubeconfig import load
from capacityd.node.tls import ServerTrust
from tests.clientgo.certificates import CASES, Issued, Maker, serve
from tests.cluster.credentials import Authority, kubeconfig
from tests.support.nodes import node
from tests.support.server import Request, answer, review
from tests.support.tls import answers, serve_tls


def script(request: Request) -> bytes:
    return review("system:node:n1") if request.method == "POST" else answer(200, node(capacity={"cpu": "4"}))


@pytest.mark.parametrize("name", CASES)
def test_a_server_is_accepted_or_refused_as_by_go(tmp_path: Path, name: str) -> None:
    requests: list[Request] = []

    def listen(request: Request) -> bytes:
        requests.append(request)
        return script(request)

    case = CASES[name]
    with serve(case, tmp_path, listen) as (_, path):
        if case.accepted != case.openssl_differs:
            assert open_node(str(path), None, "host", None).read().capacity == {"cpu": "4"}
        else:
            with pytest.raises(NodeUnauthorized):
                open_node(str(path), None, "host", None).read()
            assert requests == [], "no credentials were sent"


MESSAGES = {
    "another authority": "a certificate that the certificate authority in",
    "only a common name": "presented a certificate for other names",
    "expired": "presented a certificate that is not valid now",
    "for clients only": "presented a certificate that is not for a server",
    "empty": "contains no usable certificate",
    "TRUSTED CERTIFICATE": "contains no usable certificate",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_refused_certificate_has_its_message(tmp_path: Path, name: str) -> None:
    with serve(CASES[name], tmp_path, script) as (_, path), pytest.raises(NodeUnauthorized, match=MESSAGES[name]):
        open_node(str(path), None, "host", None).read()


def test_the_authority_that_fits_is_remembered(tmp_path: Path) -> None:
    """During a rotation, one server's certificate may be of the old authority, and that of another of the new one."""
    with serve(CASES["old, new; without identifiers"], tmp_path, script) as (server, path):
        trust = ServerTrust(load(str(path)))

        def connect(context: ssl.SSLContext) -> socket:
            return context.wrap_socket(socket_to(server.url))

        trust.try_contexts(connect).close()
        assert server.connections == 3, "both, the old one, the new one"
        trust.try_contexts(connect).close()
        assert server.connections == 4
        pem = (tmp_path / "1.crt", tmp_path / "1.key")
        maker = Maker(tmp_path / "more")
        (tmp_path / "more").mkdir()
        leaf = maker.issue("/CN=x", "subjectAltName = IP:127.0.0.1\n", Issued(*pem))
        server.behave = answers(script, (leaf.certificate, leaf.key))
        trust.try_contexts(connect).close()


def socket_to(url: str) -> socket:
    connected = socket()
    connected.connect(("127.0.0.1", int(url.rpartition(":")[2])))
    return connected


def test_an_expired_certificate_is_named_whichever_authority_comes_first(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    extensions = "basicConstraints = CA:true\nsubjectKeyIdentifier = none\n"
    old, new = (maker.issue("/CN=kubernetes", extensions) for _ in range(2))
    leaf = maker.issue("/CN=x", "subjectAltName = IP:127.0.0.1\n", new, days=-1)
    (tmp_path / "bundle.pem").write_text(old.pem + new.pem)
    with serve_tls(answers(script, (leaf.certificate, leaf.key))) as server:
        path = tmp_path / "kubeconfig"
        path.write_text(kubeconfig(server.url, tmp_path / "bundle.pem", {"token": "t"}))
        with pytest.raises(NodeUnauthorized, match="certificate has expired"):
            open_node(str(path), None, "host", None).read()


def test_the_key_of_a_client_certificate_is_in_its_own_file(tmp_path: Path) -> None:
    """The file of the certificate may contain another key, as after a renewal."""
    authority = Authority.create(tmp_path / "authority")
    pem = authority.client("system:node:n1", ["system:nodes"], tmp_path / "client.pem")
    other = authority.key("other").read_text()
    key = tmp_path / "client.key"
    key.write_text((tmp_path / "authority/client.key").read_text())
    pem.write_text(other + (tmp_path / "authority/client.crt").read_text())
    with serve_tls(answers(script, authority.server(), authority.ca_file)) as server:
        path = tmp_path / "kubeconfig"
        user = {"client-certificate": str(pem), "client-key": str(key)}
        path.write_text(kubeconfig(server.url, authority.ca_file, user))
        assert open_node(str(path), None, "host", None).name == "n1"

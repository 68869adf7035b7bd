"""Client certificates and keys from people's reports (tests/reports.md). kubectl accepts the same ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from capacityd.model.errors import NodeUnauthorized
from capacityd.node import Machine, open_node
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.tls import tls_context
from tests.clientgo.certificates import CA, IDENTIFIERS, Maker
from tests.cluster.credentials import kubeconfig
from tests.support.tls import answers, serve_tls
from tests.unit.node.test_api_node import respond

ALGORITHMS = {
    "RSA": ("genpkey", "-algorithm", "RSA"),
    "EC": ("ecparam", "-name", "prime256v1", "-genkey", "-noout"),
    "Ed25519": ("genpkey", "-algorithm", "ed25519"),
}
PKCS8 = ("pkcs8", "-topk8", "-nocrypt")
ENCODINGS = [*((name, PKCS8) for name in ALGORITHMS), ("RSA", ("rsa", "-traditional")), ("EC", ("ec",))]


def converted(key: Path, *command: str) -> str:
    """The key in another encoding, made by this openssl command."""
    done = subprocess.run(["openssl", *command, "-in", key], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def use(certificate: str, key: str) -> None:
    """Raises NodeUnauthorized if the certificate and the key cannot be used."""
    tls_context(ClusterAccess("k", "https://192.0.2.1:6443", certificate=certificate, key=key), None)


@pytest.mark.parametrize(("algorithm", "encoding"), ENCODINGS)
def test_a_key_of_each_encoding_is_used_with_its_certificate(
    tmp_path: Path, algorithm: str, encoding: tuple[str, ...]
) -> None:
    maker = Maker(tmp_path)
    client, other = (maker.issue("/CN=x", CA, key=ALGORITHMS[algorithm]) for _ in range(2))
    key = converted(client.key, *encoding)
    use(client.pem, key)
    with pytest.raises(NodeUnauthorized, match="is damaged, or they do not belong together"):
        use(other.pem, key)


def test_a_key_whose_block_names_another_kind_is_refused(tmp_path: Path) -> None:
    """Go ignores the name of the PEM block. OpenSSL believes it."""
    client = Maker(tmp_path).issue("/CN=x", CA, key=ALGORITHMS["EC"])
    with pytest.raises(NodeUnauthorized, match="the certificate or its key is damaged"):
        use(client.pem, converted(client.key, "ec").replace("EC PRIVATE", "RSA PRIVATE"))


@pytest.mark.parametrize("command", [("pkcs8", "-topk8"), ("rsa", "-traditional", "-aes128")])
def test_a_key_with_a_password_is_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    client = Maker(tmp_path).issue("/CN=x", CA, key=ALGORITHMS["RSA"])
    key = converted(client.key, *command, "-passout", "pass:secret")
    with pytest.raises(NodeUnauthorized, match="its key is encrypted with a password; `openssl pkey"):
        use(client.pem, key)


def test_a_client_presents_its_whole_chain(tmp_path: Path) -> None:
    """The server knows only the root, and an intermediate authority has signed the certificate."""
    maker = Maker(tmp_path)
    root = maker.root()
    intermediate = maker.issue("/CN=intermediate", CA + IDENTIFIERS, root)
    client = maker.issue("/CN=x", IDENTIFIERS, intermediate)
    server = maker.leaf(root)
    user = {"client-certificate": str(tmp_path / "client.pem"), "client-key": str(client.key)}
    with serve_tls(answers(respond, (server.certificate, server.key), root.certificate)) as running:
        (tmp_path / "kubeconfig").write_text(kubeconfig(running.url, root.certificate, user))
        (tmp_path / "client.pem").write_text(client.pem + intermediate.pem)
        assert open_node(str(tmp_path / "kubeconfig"), None, Machine("host", None)).identify() == "n1"
        (tmp_path / "client.pem").write_text(client.pem)
        with pytest.raises(NodeUnauthorized, match="rejected the client certificate"):
            open_node(str(tmp_path / "kubeconfig"), None, Machine("host", None)).read()

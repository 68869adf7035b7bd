"""Client certificates and keys from people's reports (tests/reports.md). kubectl accepts the same ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import NodeUnauthorized
from capacityd.node.api_node import ApiNode
from capacityd.node.identity import Machine
from capacityd.node.tls import tls_context
from tests.clientgo.certificates import CA, IDENTIFIERS, Maker
from tests.cluster.credentials import kubeconfig
from tests.support.tls import answers, serve_tls
from tests.unit.node.test_api_node import respond

RSA = ("genpkey", "-algorithm", "RSA")
EC = ("ecparam", "-name", "prime256v1", "-genkey", "-noout")
PKCS8 = "pkcs8 -topk8 -nocrypt"
KEYS = [  # the command of openssl that makes the key, the one that converts it, and whether the result can be used
    (RSA, PKCS8, True),
    (RSA, "rsa -traditional", True),
    (RSA, "pkcs8 -topk8 -passout pass:secret", False),
    (RSA, "rsa -traditional -aes128 -passout pass:secret", False),
    (EC, PKCS8, True),
    (EC, "ec", True),
    (("genpkey", "-algorithm", "ed25519"), PKCS8, True),
]
UNUSABLE = "is damaged, they do not belong together, or the key is encrypted with a password; `openssl pkey"


def converted(key: Path, command: str) -> str:
    """The text of the key after this command of openssl has converted it."""
    process = subprocess.run(["openssl", *command.split(), "-in", key], capture_output=True, text=True, check=True)
    return process.stdout


def use(certificate: str, key: str) -> None:
    """Raises NodeUnauthorized if the certificate and the key cannot be used."""
    tls_context(ClusterAccess("k", "https://192.0.2.1:6443", certificate=certificate, key=key), None)


@pytest.mark.parametrize(("algorithm", "command", "usable"), KEYS)
def test_a_key_with_a_password_is_named(tmp_path: Path, algorithm: tuple[str, ...], command: str, usable: bool) -> None:
    """A key without a password is used, whatever its encoding."""
    maker = Maker(tmp_path)
    client, other = (maker.issue("/CN=x", CA, key=algorithm) for _ in range(2))
    key = converted(client.key, command)
    if usable:
        use(client.pem, key)
    with pytest.raises(NodeUnauthorized, match=UNUSABLE):
        use(other.pem if usable else client.pem, key)


def test_a_key_whose_block_names_another_kind_is_refused(tmp_path: Path) -> None:
    """Go ignores the name of the PEM block. OpenSSL relies on it."""
    client = Maker(tmp_path).issue("/CN=x", CA, key=EC)
    with pytest.raises(NodeUnauthorized, match=UNUSABLE):
        use(client.pem, converted(client.key, "ec").replace("EC PRIVATE", "RSA PRIVATE"))


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
        assert ApiNode(str(tmp_path / "kubeconfig"), None, Machine("host", None)).identify() == "n1"
        (tmp_path / "client.pem").write_text(client.pem)
        with pytest.raises(NodeUnauthorized, match="rejected the client certificate"):
            ApiNode(str(tmp_path / "kubeconfig"), None, Machine("host", None)).read()

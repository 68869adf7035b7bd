"""The identities in the test cluster: a certificate authority, tokens, and the kubeconfig files made of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ADMIN = "admin"
# The API server reads its tokens once, at start. A client certificate can be made for any name at any time.
NODES = (*(f"n{i}" for i in range(1, 6)), *(f"t{i:03}" for i in range(1, 1000)))

Credentials = Literal["token", "certificate", "exec"]

_EXTENSIONS = """\
openssl_conf = init
[init]
stbl_section = names
[names]
# Otherwise openssl accepts at most 64 characters. A Node's name may be longer.
commonName = min:1, max:300
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = IP:127.0.0.1,DNS:localhost
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[client]
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


def node_user(node: str) -> str:
    return f"system:node:{node}"


def groups_of(user: str) -> tuple[str, ...]:
    """The groups that belong to a user's name."""
    if user == ADMIN:
        return ("system:masters",)
    return ("system:nodes",) if user.startswith("system:node:") else ()


def token_of(user: str) -> str:
    return f"secret-of-{user.replace(':', '-')}"


def token_file() -> str:
    """The text of the API server's --token-auth-file, with the tokens of the admin and the nodes."""
    users = [ADMIN, *map(node_user, NODES)]
    return "".join(f'{token_of(user)},{user},{user},"{",".join(groups_of(user))}"\n' for user in users)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority, with its files in a folder."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Authority:
        folder.mkdir()
        authority = cls(folder)
        (folder / "openssl.cnf").write_text(_EXTENSIONS)
        authority._certificate("ca", "/CN=tests", "authority")
        return authority

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.crt"

    def server(self) -> tuple[Path, Path]:
        """Certificate and key for a server on the loopback address."""
        if not (self.folder / "server.crt").exists():
            self._certificate("server", "/CN=localhost", "server", signed=True)
        return self.folder / "server.crt", self.folder / "server.key"

    def client(self, user: str, groups: Sequence[str], path: Path) -> Path:
        """Writes a new certificate and its key to one file, as the kubelet does."""
        name = path.stem
        self._certificate(name, "".join(f"/O={group}" for group in groups) + f"/CN={user}", "client", signed=True)
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        path.touch(0o600)
        path.write_text(certificate.read_text() + key.read_text())
        return path

    def key(self, name: str) -> Path:
        path = self.folder / f"{name}.key"
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)
        return path

    def _certificate(self, name: str, subject: str, kind: str, signed: bool = False) -> None:
        """Makes a key and a certificate. kind: the section of openssl.cnf with the certificate's extensions."""
        signer: list[str | Path] = ["-CA", self.ca_file, "-CAkey", self.folder / "ca.key"] if signed else []
        key = self.key(name)
        _openssl(
            *("req", "-x509", "-new", "-config", self.folder / "openssl.cnf", "-extensions", kind, "-days", "2"),
            *("-subj", subject, "-key", key, "-out", self.folder / f"{name}.crt", *signer),
        )


def _openssl(*arguments: str | Path) -> None:
    result = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"openssl {arguments[0]} failed: {result.stderr}")


def kubeconfig(server: str, ca_file: Path, user: dict[str, Any]) -> str:
    """The text of a kubeconfig, in JSON (which is valid YAML)."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
            "users": [{"name": "tests", "user": user}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
            "current-context": "tests",
        },
        indent=1,
    )


def exec_plugin(path: Path, token: str) -> dict[str, Any]:
    """Writes a program that prints the token to path. Returns the kubeconfig's user entry for the program."""
    version = "client.authentication.k8s.io/v1"
    credential = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": token}}
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(credential)}\nEND\n")
    path.chmod(0o700)
    return {"exec": {"apiVersion": version, "command": str(path), "interactiveMode": "Never"}}

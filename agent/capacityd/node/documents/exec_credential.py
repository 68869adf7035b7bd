"""Parses the ExecCredential that an exec plugin prints (client.authentication.k8s.io)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from capacityd.node.documents.fields import InvalidDocument


@dataclass(frozen=True, slots=True)
class Credential:
    """The credentials of a kubeconfig's user. A missing part is None. The certificate and its key are PEM."""

    token: str | None = field(repr=False)
    certificate: str | None = field(repr=False)
    key: str | None = field(repr=False)


def exec_credential(output: bytes, version: str) -> Credential:
    """Parses the output of a plugin. version: the apiVersion that the output must have.

    Raises InvalidDocument. The message is the end of a sentence about the plugin. It does not quote the output, because
    the output may contain a secret.
    """
    try:
        document = json.loads(output)
    except (ValueError, RecursionError) as e:
        raise InvalidDocument("did not print JSON") from e
    status = document.get("status") if isinstance(document, dict) else None
    if not isinstance(status, dict) or document.get("kind") != "ExecCredential":
        raise InvalidDocument("did not print an ExecCredential with a status")
    if document.get("apiVersion") != version:
        raise InvalidDocument(f"printed an apiVersion other than {version}")
    token = status.get("token")
    certificate = status.get("clientCertificateData")
    key = status.get("clientKeyData")
    if not all(isinstance(part, str | None) for part in (token, certificate, key)):
        raise InvalidDocument("printed an ExecCredential with a value that is not text")
    if not token and not (certificate and key):
        raise InvalidDocument("printed neither a token nor a certificate with its key")
    return Credential(token=token or None, certificate=certificate or None, key=key or None)

"""The ExecCredential that an exec plugin prints (client.authentication.k8s.io). Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field


class InvalidCredential(ValueError):
    """The output is not an ExecCredential. The message never quotes the output, because it contains a secret."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A plugin's output. The certificate and its key are PEM."""

    token: str | None = field(repr=False)
    certificate: str | None = field(repr=False)
    key: str | None = field(repr=False)


def exec_credential(output: bytes, version: str) -> Credential:
    """Parses the output of a plugin. version: its apiVersion. Raises InvalidCredential."""
    try:
        document = json.loads(output)
    except (ValueError, RecursionError) as e:
        raise InvalidCredential("did not print JSON") from e
    status = document.get("status") if isinstance(document, dict) else None
    if not isinstance(status, dict) or document.get("kind") != "ExecCredential":
        raise InvalidCredential("did not print an ExecCredential with a status")
    if document.get("apiVersion") != version:
        raise InvalidCredential(f"printed an apiVersion other than {version}")
    token = status.get("token")
    certificate = status.get("clientCertificateData")
    key = status.get("clientKeyData")
    if not all(isinstance(part, str | None) for part in (token, certificate, key)):
        raise InvalidCredential("printed an ExecCredential with a value that is not text")
    if not token and not (certificate and key):
        raise InvalidCredential("printed neither a token nor a certificate with its key")
    return Credential(token=token or None, certificate=certificate or None, key=key or None)

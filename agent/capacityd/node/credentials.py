"""What a client certificate and a token say about themselves: whose they are, and when they expire.

The kubernetes library does not look into them, and Python's ssl parses the certificate of the other side only.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Mapping
from datetime import datetime, timezone

_UTC_TIME, _EXPLICIT_VERSION = 0x17, 0xA0


def user_key(name: str | None, user: Mapping[str, object], token: str | None, certificate: str | None) -> str:
    """Returns text that differs between users, and stays the same when a user's token or certificate is renewed.

    name, user: the entry in the kubeconfig.
    """
    entry = {key: value for key, value in user.items() if not key.startswith("client-")}
    subject = certificate_subject(certificate) if certificate else b""
    return repr((name, sorted(entry.items()), token_subject(token or ""), subject))


def token_subject(token: str) -> str:
    """Returns the issuer, subject and Node of a JSON Web Token (RFC 7519), or "" for any other token.

    The signature is not verified, because the result only distinguishes users.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return ""
    if not isinstance(claims, dict):
        return ""
    kubernetes = claims.get("kubernetes.io")
    node = kubernetes.get("node") if isinstance(kubernetes, dict) else None
    return repr((claims.get("iss"), claims.get("sub"), node))


def certificate_subject(pem: str) -> bytes:
    """Returns the subject of the first certificate in a PEM text as DER, or the text if it cannot be parsed."""
    try:
        der, at = _validity(pem)
        _, _, at = _element(der, at)
        _, _, end = _element(der, at)
        return der[at:end]
    except (ssl.SSLError, ValueError, IndexError):
        return pem.encode("utf-8", "surrogateescape")


def not_after(pem: str) -> datetime | None:
    """Returns when the first certificate in a PEM text expires, or None if it cannot be parsed (RFC 5280, 4.1)."""
    try:
        der, at = _validity(pem)
        _, at, _ = _element(der, at)
        _, _, at = _element(der, at)  # notBefore
        tag, at, end = _element(der, at)
        text = der[at:end].decode("ascii")
        return datetime.strptime(text, "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ").replace(
            tzinfo=timezone.utc
        )
    except (ssl.SSLError, ValueError, IndexError):
        return None


def _validity(pem: str) -> tuple[bytes, int]:
    """Returns the DER of the first certificate and the offset of its validity, which the subject follows."""
    begin, end = pem.find(ssl.PEM_HEADER), pem.find(ssl.PEM_FOOTER)
    der = ssl.PEM_cert_to_DER_cert(pem[begin : end + len(ssl.PEM_FOOTER)])
    _, at, _ = _element(der, 0)  # Certificate
    _, at, _ = _element(der, at)  # TBSCertificate
    tag, _, end = _element(der, at)
    at = end if tag == _EXPLICIT_VERSION else at
    for _ in ("serial number", "signature", "issuer"):
        _, _, at = _element(der, at)
    return der, at


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Returns the tag of the DER element at this offset, and the offsets where its content begins and ends."""
    tag, length = der[at], der[at + 1]
    at += 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(der[at : at + size], "big")
        at += size
    return tag, at, at + length

"""The content of a kubeconfig and its files, and the client certificate's expiry."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import datetime, timezone

from capacityd.node.redaction import Secrets, secrets_of

_UTC_TIME, _EXPLICIT_VERSION = 0x17, 0xA0


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach an API server, and with which identity. Certificates and keys are PEM."""

    kubeconfig: str
    server: str
    authority: str | None = None
    verify: bool = True
    """False accepts any server certificate."""
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    user: str = field(default="", repr=False)
    """Distinguishes the users of kubeconfigs. Stays the same if the file of a token or certificate is renewed."""
    files: tuple[str, ...] = ()
    """Absolute paths of all files that were read."""
    of_kubelet: bool = True
    """False for a person's kubeconfig; messages depend on it."""

    def secrets(self) -> Secrets:
        """Returns the credentials, which must not appear in messages."""
        return secrets_of(self.token, (self.certificate, self.key), self.proxy)

    def quote(self, text: str) -> str:
        """Makes foreign text safe for a message: without these credentials, printable, and of limited length."""
        return self.secrets().quote(text)

    def expired(self) -> str:
        """Returns when the client certificate expired, by this machine's clock; "" if it has not, or if there is
        none."""
        end = not_after(self.certificate or "")
        return f"{end:%Y-%m-%d %H:%M} UTC" if end is not None and end < datetime.now(timezone.utc) else ""


def not_after(pem: str) -> datetime | None:
    """Returns when the first certificate in a PEM text expires; None if it cannot be parsed (RFC 5280, 4.1).

    The kubernetes library does not read the expiry, and Python's ssl parses only the peer's certificate.
    """
    begin, end = pem.find(ssl.PEM_HEADER), pem.find(ssl.PEM_FOOTER)
    try:
        der = ssl.PEM_cert_to_DER_cert(pem[begin : end + len(ssl.PEM_FOOTER)])
        _, at, _ = _element(der, 0)  # Certificate
        _, at, _ = _element(der, at)  # TBSCertificate
        tag, _, end = _element(der, at)
        at = end if tag == _EXPLICIT_VERSION else at
        for _ in ("serial number", "signature", "issuer"):
            _, _, at = _element(der, at)
        _, at, _ = _element(der, at)  # validity
        _, _, at = _element(der, at)  # notBefore
        tag, at, end = _element(der, at)
        text = der[at:end].decode("ascii")
        form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
        return datetime.strptime(text, form).replace(tzinfo=timezone.utc)
    except (ssl.SSLError, ValueError, IndexError):
        return None


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Returns the tag of the DER element at this offset, and the offsets of the start and end of its content."""
    tag, length = der[at], der[at + 1]
    at += 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(der[at : at + size], "big")
        at += size
    return tag, at, at + length

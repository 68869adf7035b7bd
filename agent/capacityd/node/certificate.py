"""When a certificate ends. Python's ssl tells it of the peer's certificates only, so it is read from the DER."""

from __future__ import annotations

import ssl
from datetime import datetime, timezone

_UTC_TIME, _EXPLICIT_VERSION = 0x17, 0xA0


def not_after(pem: str) -> datetime | None:
    """The end of the first certificate in this PEM text; None if there is none that can be read (RFC 5280, 4.1)."""
    begin, end = pem.find(ssl.PEM_HEADER), pem.find(ssl.PEM_FOOTER)
    try:
        der = ssl.PEM_cert_to_DER_cert(pem[begin : end + len(ssl.PEM_FOOTER)])
        _, at, _ = _element(der, 0)  # Certificate
        _, at, _ = _element(der, at)  # TBSCertificate
        tag, _, after = _element(der, at)
        at = after if tag == _EXPLICIT_VERSION else at
        for _ in ("serial number", "signature", "issuer"):
            _, _, at = _element(der, at)
        _, at, _ = _element(der, at)  # Validity
        _, _, at = _element(der, at)  # notBefore
        tag, at, after = _element(der, at)
        text = der[at:after].decode("ascii")
        return datetime.strptime(text, "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ").replace(
            tzinfo=timezone.utc
        )
    except (ValueError, IndexError):
        return None


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """The tag of the element here, where its content begins, and where the next element does."""
    tag, length = der[at], der[at + 1]
    at += 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(der[at : at + size], "big")
        at += size
    return tag, at, at + length

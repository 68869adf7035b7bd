"""Prepares TLS contexts that accept servers' certificates as client-go does, and that present a client certificate.

The rules of client-go are those of Go's crypto/x509. tests/clientgo/certificates.py lists where OpenSSL differs. The
watcher imports this module, so the module imports little.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager


def set_trust(context: ssl.SSLContext, authority: str | None, *, verify: bool) -> None:
    """Makes a client's context accept the certificates of servers that client-go accepts.

    authority: the certificates of the server's authorities (PEM); None: the authorities of the system. verify: False
    accepts any certificate. Raises ssl.SSLError or ValueError if a certificate is damaged, or none is usable.
    """
    # The flag VERIFY_X509_STRICT of create_default_context() is not used. It requires a key identifier, which the
    # authorities of many clusters lack.
    # A trusted certificate need not be a root. It may also be an intermediate certificate, or the server's own.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Only the names in subjectAltName count.
    context.hostname_checks_common_name = False
    # Go accepts RSA keys from 1024 bits, and no SHA-1. So does level 1 of OpenSSL 3.
    context.set_ciphers("DEFAULT:@SECLEVEL=1")
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority is None:
        context.load_default_certs()
    else:
        # Comments in the PEM text may have any encoding.
        context.load_verify_locations(cadata=authority.encode("ascii", "ignore").decode())


def set_client_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Makes the context present a client certificate. certificate, key: PEM.

    Raises ssl.SSLError or ValueError if one of them is damaged or encrypted, or if they do not belong together.
    """
    with _memory_file(certificate) as certificate_file, _memory_file(key) as key_file:
        # Without this function, OpenSSL would ask on the terminal for the password of an encrypted key.
        context.load_cert_chain(certificate_file, key_file, password=lambda: "")


@contextmanager
def _memory_file(text: str) -> Iterator[str]:
    """The path of a file in memory, which exists until the context ends. OpenSSL accepts only files."""
    fd = os.memfd_create("client-certificate")
    try:
        with open(fd, "wb", closefd=False) as f:
            f.write(text.encode("latin-1", "replace"))
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)

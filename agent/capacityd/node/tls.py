"""TLS with the settings of client-go: which certificates of servers are accepted, and the client certificate.

The rules of client-go are those of Go's crypto/x509. tests/clientgo/certificates.py lists where OpenSSL differs.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from capacityd.model.errors import NodeUnauthorized
from capacityd.node.cluster_access import ClusterAccess

_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class _Context(ssl.SSLContext):
    """A context for one server. It checks the server's name in the handshake.

    The caller's server_hostname is not used: urllib3 passes none for an IP address, and does not know tls-server-name.
    """

    server_name: str
    """The name or address that the server's certificate must contain."""

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        return super().wrap_socket(*args, **{**options, "server_hostname": self.server_name})

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return super().wrap_bio(*args, **{**options, "server_hostname": self.server_name})


def tls_contexts(access: ClusterAccess) -> Iterator[ssl.SSLContext]:
    """Yields the context for connections to a server; then, if it has several authorities, one for each alone.

    While a cluster replaces its authority, the old and the new one may have the same name: EKS trusts both for weeks.
    Go tries both. OpenSSL tries one, unless the certificates have key identifiers. Raises NodeUnauthorized if a
    certificate is unusable.
    """
    yield tls_context(access, access.authority)
    authorities = _CERTIFICATE.findall(access.authority or "")
    if len(authorities) > 1:
        yield from (tls_context(access, authority) for authority in authorities)


def tls_context(access: ClusterAccess, authority: str | None) -> ssl.SSLContext:
    """Returns a context for connections to a server. authority: PEM; None for those of the system."""
    # Unlike create_default_context(), this does not set VERIFY_X509_STRICT: the authorities of many clusters lack the
    # key identifier that this flag requires.
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.server_name = access.server_name or (urlsplit(access.server).hostname or "").rstrip(".")
    # A trusted certificate need not be a root: it may be an intermediate, or the server's own.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Names are only in subjectAltName.
    context.hostname_checks_common_name = False
    # Go accepts RSA keys from 1024 bits, and no SHA-1. This is OpenSSL 3's level 1.
    context.set_ciphers("DEFAULT:@SECLEVEL=1")
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority is None:
        context.load_default_certs()
    else:
        _load_authority(context, authority, access)
    if access.certificate and access.key:
        _load_client_certificate(context, access.certificate, access.key, access)
    return context


def _load_authority(context: ssl.SSLContext, pem: str, access: ClusterAccess) -> None:
    """Makes the context trust these certificates."""
    try:
        # Comments may have any encoding.
        context.load_verify_locations(cadata=pem.encode("ascii", "ignore").decode())
    except (ssl.SSLError, ValueError) as e:
        why = f"the certificate authority in {access.kubeconfig} contains no usable certificate, or a damaged one"
        raise NodeUnauthorized(why) from e


def _load_client_certificate(context: ssl.SSLContext, certificate: str, key: str, access: ClusterAccess) -> None:
    """Makes the context present a client certificate."""
    try:
        with _memory_file(certificate) as certificate_file, _memory_file(key) as key_file:
            # Without a password, OpenSSL would ask for one on the terminal if the key is encrypted.
            context.load_cert_chain(certificate_file, key_file, password=lambda: "")
    except (ssl.SSLError, ValueError) as e:
        why = "the certificate or its key is damaged, or they do not belong together"
        if "ENCRYPTED" in key:  # in the first line of PKCS #8, in the header Proc-Type of older formats
            why = "its key is encrypted with a password; `openssl pkey -in KEY -out NEW_KEY` writes it without one"
        raise NodeUnauthorized(f"the client certificate in {access.kubeconfig} cannot be used: {why}") from e


@contextmanager
def _memory_file(text: str) -> Iterator[str]:
    """The path of a file that exists only in memory, until the context ends: OpenSSL requires files."""
    fd = os.memfd_create("client-certificate")
    try:
        with open(fd, "wb", closefd=False) as f:
            f.write(text.encode("latin-1", "replace"))
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)

"""The TLS contexts of connections to an API server. They accept the servers' certificates that client-go accepts.

client-go follows the rules of Go's crypto/x509. tests/clientgo/certificates.py lists where OpenSSL differs. The watcher
imports this module, so the module imports little.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import NodeUnauthorized

CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
"""A certificate in a PEM text. The text may contain several certificates and a key."""


class _Context(ssl.SSLContext):
    """A context that checks the name of one server.

    The caller's server_hostname is ignored, because urllib3 omits an IP address, and does not know tls-server-name.
    """

    server_name: str
    """The name or address that the server's certificate must contain."""

    def wrap_socket(self, *args: object, **options: object) -> ssl.SSLSocket:
        options["server_hostname"] = self.server_name
        return super().wrap_socket(*args, **options)  # type: ignore[arg-type]


def tls_contexts(access: ClusterAccess) -> Iterator[ssl.SSLContext]:
    """Yields the contexts to try for a server: one with all authorities, and then one for each authority.

    While a cluster replaces its authority, the old and the new authority may have the same name. EKS trusts both for
    weeks. Go tries both authorities. OpenSSL tries only one authority, unless the certificates have key identifiers.
    Raises NodeUnauthorized if a certificate is unusable.
    """
    yield tls_context(access, access.authority)
    for authority in CERTIFICATE.findall(access.authority or ""):
        yield tls_context(access, authority)


def tls_context(access: ClusterAccess, authority: str | None) -> ssl.SSLContext:
    """Returns a context for connections to a server. authority: PEM; None for the authorities of the system.

    Raises NodeUnauthorized if a certificate is unusable.
    """
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.server_name = access.server_name
    try:
        _set_trust(context, authority, verify=access.verify)
    except (ssl.SSLError, ValueError) as e:
        why = f"the certificate authority in {access.kubeconfig} contains no usable certificate, or a damaged one"
        raise NodeUnauthorized(why) from e
    if access.certificate and access.key:
        try:
            _set_client_certificate(context, access.certificate, access.key)
        except (ssl.SSLError, ValueError) as e:
            raise NodeUnauthorized(
                f"the client certificate in {access.kubeconfig} cannot be used: the certificate or its key is damaged, "
                "they do not belong together, or the key is encrypted with a password; `openssl pkey -in KEY -out "
                "NEW_KEY` writes the key without a password"
            ) from e
    return context


def _set_trust(context: ssl.SSLContext, authority: str | None, *, verify: bool) -> None:
    """Chooses the servers' certificates that the context accepts. verify: False accepts any certificate."""
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


def _set_client_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Makes the context present a client certificate. certificate, key: PEM."""
    with _memory_file(certificate) as certificate_file, _memory_file(key) as key_file:
        # Without this function, OpenSSL would ask on the terminal for the password of an encrypted key.
        context.load_cert_chain(certificate_file, key_file, password=lambda: "")


@contextmanager
def _memory_file(text: str) -> Iterator[str]:
    """Yields the path of a file in memory that contains the text, because OpenSSL loads only files."""
    fd = os.memfd_create("client-certificate")
    try:
        with open(fd, "wb", closefd=False) as f:
            f.write(text.encode("latin-1", "replace"))
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)

"""The TLS contexts of connections to an API server."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from capacityd.linux.tls import set_client_certificate, set_trust
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

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        options["server_hostname"] = self.server_name
        return super().wrap_socket(*args, **options)


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
    host = urlsplit(access.server).hostname or ""
    context.server_name = access.server_name or host.rstrip(".")
    try:
        set_trust(context, authority, verify=access.verify)
    except (ssl.SSLError, ValueError) as e:
        why = f"the certificate authority in {access.kubeconfig} contains no usable certificate, or a damaged one"
        raise NodeUnauthorized(why) from e
    if access.certificate and access.key:
        try:
            set_client_certificate(context, access.certificate, access.key)
        except (ssl.SSLError, ValueError) as e:
            raise NodeUnauthorized(
                f"the client certificate in {access.kubeconfig} cannot be used: the certificate or its key is damaged, "
                "they do not belong together, or the key is encrypted with a password; `openssl pkey -in KEY -out "
                "NEW_KEY` writes the key without a password"
            ) from e
    return context

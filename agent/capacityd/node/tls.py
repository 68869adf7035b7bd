"""Sets up TLS from a kubeconfig. The `kubernetes` client accepts certificates only as files."""

from __future__ import annotations

import os
import ssl

from capacityd.model.errors import NodeDenied
from capacityd.node.cluster_access import ClusterAccess


def tls_context(access: ClusterAccess) -> ssl.SSLContext:
    """Returns the certificates that a connection trusts and presents. Raises NodeDenied if one cannot be used."""
    # With an empty text, ssl would trust the system's authorities.
    authority = None if access.authority is None else access.authority.encode("ascii", "replace").decode() + "\n"
    try:
        context = ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError) as e:
        raise NodeDenied(f"the certificate authority in {access.kubeconfig} contains no usable certificate") from e
    # Python 3.13 sets this flag, but the authorities of many clusters lack the key identifier that it requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # urllib3 checks the name. Up to 1.26, it can't leave this to ssl for a server with an IP address.
    context.check_hostname = False
    if not access.verify:
        context.verify_mode = ssl.CERT_NONE
    if access.certificate and access.key:
        _load_certificate(context, access)
    return context


def _load_certificate(context: ssl.SSLContext, access: ClusterAccess) -> None:
    # OpenSSL requires a file. This file exists only in memory, until it is closed.
    fd = os.memfd_create("client-certificate")
    try:
        with open(fd, "wb", closefd=False) as f:
            f.write(f"{access.certificate}\n{access.key}\n".encode("latin-1", "replace"))
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=lambda: "")
    except (ssl.SSLError, ValueError) as e:
        raise NodeDenied(
            f"the client certificate in {access.kubeconfig} cannot be used: the certificate or its key is damaged, or "
            "they do not belong together"
        ) from e
    finally:
        os.close(fd)

"""What all connections to an API server have in common: how the server is verified, and the User-Agent."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Iterator
from typing import Any

from capacityd import __version__
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.tls import tls_contexts
from capacityd.node.transport_errors import causes

USER_AGENT = f"capacityd/{__version__}"
_NOT_BY_THIS_AUTHORITY = (7, 20)
"""CERT_SIGNATURE_FAILURE and UNABLE_TO_GET_ISSUER_CERT_LOCALLY of OpenSSL's x509_vfy.h."""


class VerifiedPool:
    """Sends requests through a pool manager of urllib3, and verifies the server as client-go does.

    Raises NodeUnauthorized if a certificate or key cannot be used.
    """

    def __init__(self, pool: Any, access: ClusterAccess) -> None:
        self._contexts: Iterator[ssl.SSLContext] = iter(())  # those that were not tried yet
        if not access.is_without_tls:
            # Older kubernetes clients name certifi's authorities here. The context would trust these as well.
            pool.connection_pool_kw["ca_certs"] = None
            self._contexts = tls_contexts(access)
            pool.connection_pool_kw["ssl_context"] = next(self._contexts)
        self._pool = pool
        self._verify = access.verify

    def request(self, method: str, url: str, **options: Any) -> Any:
        """Sends one request. Returns urllib3's response, whose body is not read yet. Raises urllib3's errors."""
        # By default, urllib3 sends a request up to four times and follows redirects. retries=False turns off both.
        options |= {"preload_content": False, "retries": False}
        with warnings.catch_warnings():
            if not self._verify:
                # urllib3 warns about insecure-skip-tls-verify at each request, but the user has chosen it.
                warnings.simplefilter("ignore")
            while True:
                try:
                    return self._pool.request(method, url, **options)
                except Exception as e:
                    # The request was not sent: its credentials follow the handshake.
                    other = next(self._contexts, None) if _is_by_another_authority(e) else None
                    if other is None:
                        raise
                    self._pool.connection_pool_kw["ssl_context"] = other


def _is_by_another_authority(error: Exception) -> bool:
    """Whether the server's certificate was not signed by the authority that OpenSSL has tried."""
    failures = (e for e in causes(error) if isinstance(e, ssl.SSLCertVerificationError))
    return any(failure.verify_code in _NOT_BY_THIS_AUTHORITY for failure in failures)

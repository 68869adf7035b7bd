"""What all connections to an API server have in common: how the server is verified, and the User-Agent."""

from __future__ import annotations

import warnings
from typing import Any

from capacityd import __version__
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.tls import tls_context

USER_AGENT = f"capacityd/{__version__}"


class VerifiedPool:
    """Sends requests through a pool manager of urllib3, and verifies the server as client-go does.

    Raises NodeUnauthorized if a certificate or key cannot be used.
    """

    def __init__(self, pool: Any, access: ClusterAccess) -> None:
        if not access.is_without_tls:
            # Older kubernetes clients name certifi's authorities here. The context would trust these as well.
            pool.connection_pool_kw["ca_certs"] = None
            pool.connection_pool_kw["ssl_context"] = tls_context(access)
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
            return self._pool.request(method, url, **options)

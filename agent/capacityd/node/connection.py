"""What all connections to an API server have in common: how the server is verified, and the User-Agent."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from capacityd import __version__
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.tls import ServerTrust

USER_AGENT = f"capacityd/{__version__}"


class VerifiedPool:
    """Sends requests through a pool manager of urllib3, and verifies the server as client-go does.

    Raises NodeUnauthorized if a certificate or key cannot be used.
    """

    def __init__(self, pool: Any, access: ClusterAccess) -> None:
        # None without TLS, because ServerTrust may load the system's authorities, which takes 42 ms.
        schemes = {urlsplit(url).scheme for url in (access.server, access.proxy) if url}
        self._trust = ServerTrust(access) if "https" in schemes else None
        # Older kubernetes clients name certifi's authorities here. The context would trust these authorities as well.
        pool.connection_pool_kw["ca_certs"] = None
        self._pool = pool
        self._verify = access.verify

    def request(self, method: str, url: str, **options: Any) -> Any:
        """Sends one request. Returns urllib3's response, whose body is not read yet. Raises urllib3's errors."""
        # By default, urllib3 sends a request up to four times and follows redirects. retries=False turns off both.
        options |= {"preload_content": False, "retries": False}
        send = partial(self._send, method, url, options)  # takes the TLS context
        with warnings.catch_warnings():
            if not self._verify:
                # urllib3 warns about insecure-skip-tls-verify at each request, but the user has chosen it.
                warnings.simplefilter("ignore")
            if self._trust is None:
                return send(None)
            return self._trust.try_contexts(send)

    def _send(self, method: str, url: str, options: Mapping[str, Any], context: ssl.SSLContext | None) -> Any:
        """Sends one request. context: None without TLS."""
        # urllib3 keeps the connections of each context apart.
        self._pool.connection_pool_kw["ssl_context"] = context
        return self._pool.request(method, url, **options)

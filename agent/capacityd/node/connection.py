"""Wraps the urllib3 pool with the kubernetes library's connections to an API server."""

from __future__ import annotations

import ssl
import warnings
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from capacityd import __version__
from capacityd.model.errors import NodeUnreachable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.tls import tls_contexts
from capacityd.node.transport_errors import causes

USER_AGENT = f"capacityd/{__version__}"
_NOT_BY_THIS_AUTHORITY = (7, 20)
"""X509_V_ERR_CERT_SIGNATURE_FAILURE and X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY of OpenSSL's x509_vfy.h."""


class HttpError(Exception):
    """A response with a status other than 2xx. from_http_status() converts this exception to a NodeError."""

    def __init__(self, status: int, body: bytes, retry_after: str = "") -> None:
        """retry_after: the text of the header Retry-After."""
        super().__init__(status)
        self.status = status
        self.body = body
        self.retry_after = retry_after


class _Response(NamedTuple):
    """The attributes of a response that the library's versions use."""

    status: int
    reason: str
    headers: Mapping[str, str]
    data: bytes


class Pool:
    """Wraps the library's urllib3 pool. All versions of the library send every request through request().

    The server is verified as in client-go. The constructor raises NodeUnauthorized for an unusable certificate or key.
    """

    def __init__(self, pool: Any, access: ClusterAccess, max_response_bytes: int) -> None:
        self._contexts: Iterator[ssl.SSLContext] = iter(())  # the TLS contexts that are still to be tried
        if not access.is_without_tls:
            # Older versions of the library set certifi's authorities here, which would be trusted, too.
            pool.connection_pool_kw["ca_certs"] = None
            # The library takes certificates and keys only from files. Such files in /tmp would remain if the process
            # is killed. These TLS contexts need no files.
            self._contexts = tls_contexts(access)
            pool.connection_pool_kw["ssl_context"] = next(self._contexts)
        self._max_response_bytes = max_response_bytes
        self._pool = pool
        self._access = access
        weakref.finalize(self, pool.clear)  # urllib3 1.26 does not close its sockets

    def request(self, method: str, url: str, **options: Any) -> _Response:
        """Sends one request, and reads the response.

        Raises HttpError for a status other than 2xx, NodeUnreachable for an incomplete or too large response, and
        urllib3's errors.
        """
        response = self._send(method, url, **options)
        server = self._access.api_server
        try:
            # The library would read a response of any size.
            data = response.read(self._max_response_bytes + 1, decode_content=False)
            if len(data) > self._max_response_bytes:
                raise NodeUnreachable(f"{server} sent a response of more than {self._max_response_bytes} bytes")
            if response.length_remaining:  # without this check, urllib3 would reuse the dead connection
                raise NodeUnreachable(f"{server} ended the connection, so its response is incomplete")
            # The next request reuses the connection, because a TLS handshake costs more than a GET. urllib3 replaces a
            # broken connection.
            response.release_conn()
        finally:
            response.close()  # does nothing after release_conn()
        if not 200 <= response.status <= 299:
            # The library's own exceptions differ between versions, and lose a body that is not UTF-8.
            raise HttpError(response.status, data, response.headers.get("Retry-After", ""))
        return _Response(response.status, reason=response.reason, headers=response.headers, data=data)

    def _send(self, method: str, url: str, **options: Any) -> Any:
        """Sends a request. Returns urllib3's response before its body is read."""
        # By default, urllib3 sends a request up to four times and follows redirects. retries=False turns off both.
        options |= {"preload_content": False, "retries": False}
        with warnings.catch_warnings():
            if not self._access.verify:
                # The user has chosen insecure-skip-tls-verify, but urllib3 would warn at each request.
                warnings.simplefilter("ignore")
            while True:
                try:
                    return self._pool.request(method, url, **options)
                except Exception as e:
                    # The request can be sent again: the TLS handshake failed, so no credentials were sent.
                    other = next(self._contexts, None) if _is_by_another_authority(e) else None
                    if other is None:
                        raise
                    self._pool.connection_pool_kw["ssl_context"] = other

    def clear(self) -> None:
        """Closes all connections. Version 37 of the library calls clear() when its client is closed."""
        self._pool.clear()


def _is_by_another_authority(error: Exception) -> bool:
    """Whether the server's certificate was signed by another authority than the one that OpenSSL tried."""
    failures = (e for e in causes(error) if isinstance(e, ssl.SSLCertVerificationError))
    return any(failure.verify_code in _NOT_BY_THIS_AUTHORITY for failure in failures)

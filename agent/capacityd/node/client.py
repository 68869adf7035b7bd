"""Sends requests to an API server with the connections of the `kubernetes` library (versions 12 to 37).

The library's own functions for requests are not used. They import 700 models, read responses of any size, and raise
other exceptions in each version.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import urllib3
from kubernetes.client import ApiClient, Configuration

from capacityd import __version__
from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import CapacitydError, NodeUnreachable
from capacityd.node.documents.fields import InvalidDocument
from capacityd.node.errors import Call, from_http_status, from_transport_error, is_signed_by_other_authority
from capacityd.node.tls import tls_contexts

T = TypeVar("T")

_METHODS = {"get": "GET", "list": "GET", "create": "POST", "patch": "PATCH"}
"""A role's verb -> the HTTP method."""
_CONNECT_TIMEOUT = 5.0
"""Seconds to connect. The name resolution may take longer."""
_TIMEOUT = 12.0
"""Seconds to wait for each part of a response. The service ends a worker that takes too long."""
_PATCH_TIMEOUT = 30.0
"""Seconds to wait for each part of a response to a PATCH. The API server responds after all admission webhooks have
answered or timed out. By default, each webhook has 10 s. Mutating webhooks are called one after the other."""
_MAX_RESPONSE_BYTES = 4 * 1024 * 1024
"""Enough for a Node. etcd stores Nodes of up to 1.5 MiB, in an encoding that is shorter than JSON."""


class Client:
    """Sends requests to one API server. A request that fails raises a NodeError."""

    def __init__(self, access: ClusterAccess, max_response_bytes: int = _MAX_RESPONSE_BYTES) -> None:
        """Raises NodeUnauthorized for an unusable certificate or key."""
        self.access = access
        self._max_response_bytes = max_response_bytes
        self._untried_contexts = tls_contexts(access)
        with _as_node_errors(access):
            self._pool = _connection_pool(access)
            self._pool.connection_pool_kw["ssl_context"] = next(self._untried_contexts)
            weakref.finalize(self, self._pool.clear)  # by itself, urllib3 1.26 does not close its sockets

    def request(
        self,
        call: Call,
        path: str,
        parse: Callable[[Any], T],
        body: Mapping[str, object] | None = None,
        absent_on: Collection[int] = (),
    ) -> T:
        """Sends a request, and returns the result of parse().

        path: the URL's path and query. parse: converts the response's JSON. body: the JSON to send, if any.
        absent_on: HTTP statuses that are not errors. For these, parse() gets None.
        """
        with _as_node_errors(self.access):
            url = f"{self.access.server}{path}"
            status, headers, content = self._send(_METHODS[call.verb], url, body)
        if status in absent_on:
            return parse(None)
        if not 200 <= status <= 299:
            raise from_http_status(status, content, call, self.access, headers.get("Retry-After", ""))
        try:
            return parse(json.loads(content))
        except InvalidDocument as e:
            problem = str(e)
        except (ValueError, RecursionError):
            problem = "it is not JSON, or is incomplete"
        server = self.access.api_server
        raise NodeUnreachable(f"{server} sent a response that cannot be used ({call.verb} {call.resource}): {problem}")

    def _send(self, method: str, url: str, body: Mapping[str, object] | None) -> tuple[int, Mapping[str, str], bytes]:
        """Sends a request. Returns the status, the headers and the body of the response.

        Raises urllib3's errors, and NodeUnreachable for a response that is incomplete or too large.
        """
        content_type = "application/json"
        timeout = _TIMEOUT
        if method == "PATCH":
            content_type = "application/strategic-merge-patch+json"
            timeout = _PATCH_TIMEOUT
        options: dict[str, Any] = {
            "headers": {
                "Accept": "application/json",
                "Content-Type": content_type,
                "User-Agent": f"capacityd/{__version__}",
                **self.access.headers,
            },
            "body": None if body is None else json.dumps(body),
            "timeout": urllib3.Timeout(connect=_CONNECT_TIMEOUT, read=timeout),
            "retries": False,  # by default, urllib3 sends a request up to four times, and follows redirects
            "preload_content": False,  # by default, urllib3 reads a response of any size
        }
        response = self._response(method, url, options)
        try:
            limit = self._max_response_bytes
            content = response.read(limit + 1, decode_content=False)
            if len(content) > limit:
                raise NodeUnreachable(f"{self.access.api_server} sent a response of more than {limit} bytes")
            if response.length_remaining:  # without this check, urllib3 would reuse the dead connection
                raise NodeUnreachable(f"{self.access.api_server} ended the connection, so its response is incomplete")
            # The next request reuses the connection, because a TLS handshake costs more than a GET. urllib3 replaces a
            # broken connection.
            response.release_conn()
        finally:
            response.close()  # does nothing after release_conn()
        return response.status, response.headers, content

    def _response(self, method: str, url: str, options: Mapping[str, Any]) -> Any:
        """Sends a request, with the next TLS context if necessary. Returns a response whose body is not read yet."""
        while True:
            try:
                return self._pool.request(method, url, **options)
            except Exception as e:
                if not is_signed_by_other_authority(e):
                    raise
                context = next(self._untried_contexts, None)
                if context is None:
                    raise
                # The request can be sent again: the TLS handshake failed, so no credentials were sent.
                self._pool.connection_pool_kw["ssl_context"] = context


@contextmanager
def _as_node_errors(access: ClusterAccess) -> Iterator[None]:
    """Replaces every exception of a library with a NodeError."""
    try:
        yield
    except CapacitydError:
        raise
    except Exception as e:  # noqa: BLE001  # libraries also raise undocumented exceptions
        # "from None" keeps the library's message out of tracebacks, because it may contain a secret.
        raise from_transport_error(e, access) from None


def _connection_pool(access: ClusterAccess) -> Any:
    """Returns urllib3's pool of connections, as the library prepares it."""
    configuration = Configuration()
    configuration.host = access.server
    configuration.verify_ssl = access.verify
    # Also set without a proxy, because newer versions would otherwise take a proxy from environment variables.
    configuration.proxy = access.proxy
    configuration.no_proxy = ""
    configuration.proxy_headers = access.proxy_headers  # urllib3 does not take them from the URL
    pool = ApiClient(configuration).rest_client.pool_manager
    # Older versions of the library set certifi's authorities here, which would be trusted, too.
    pool.connection_pool_kw["ca_certs"] = None
    if not access.verify:
        # The user has chosen insecure-skip-tls-verify, but urllib3 would warn at each request.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return pool

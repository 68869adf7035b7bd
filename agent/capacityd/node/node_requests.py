"""The requests of a watch, sent with urllib3 and without the `kubernetes` client, which takes 25 MiB."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote

from urllib3 import PoolManager, ProxyManager, Timeout
from urllib3.connection import HTTPConnection

from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.connection import USER_AGENT, VerifiedPool
from capacityd.node.proxy import proxy_headers
from capacityd.node.refusal import HttpError

_KEEPALIVE = (
    # A peer that is gone is noticed after about 30 s: 15 s without data, then 5 s for each of three probes.
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
_MAX_ERROR_BYTES = 1 << 20
"""How much of the body is read if the status is an error."""
_ESCAPES = {ord(character): f"\\{character}" for character in "\\,="}
"""The escapes in the value of a field selector. Source: EscapeValue in k8s.io/apimachinery, pkg/fields/selector.go."""


class NodeRequests:
    """Sends requests about one Node. Two threads may call watch() and get() at the same time.

    node: the Node's name. connect_timeout: seconds until a connection is open.
    """

    def __init__(self, access: ClusterAccess, node: str, connect_timeout: float) -> None:
        self._access = access
        self._node = node
        self._connect_timeout = connect_timeout

    def watch(self, read_timeout: float) -> Any:
        """Returns urllib3's response to a watch of the Node. read_timeout: seconds between two parts of the response.

        Raises HttpError for any status but 200, urllib3's errors, and NodeUnauthorized if a certificate or key is
        unusable.
        """
        selector = quote(f"metadata.name={self._node.translate(_ESCAPES)}", safe="=")
        query = f"?watch=1&allowWatchBookmarks=true&fieldSelector={selector}"
        return self._send(query, read_timeout=read_timeout)

    def get(self, read_timeout: float) -> None:
        """Sends a GET of the Node, and ignores its content. The rest is as in watch()."""
        response = self._send(f"/{quote(self._node, safe='')}", read_timeout=read_timeout)
        response.close()

    def _send(self, path_or_query: str, read_timeout: float) -> Any:
        """Sends a GET. path_or_query: what follows the path of all Nodes."""
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT, **self._access.headers}
        timeout = Timeout(connect=self._connect_timeout, read=read_timeout)
        url = f"{self._access.server}/api/v1/nodes{path_or_query}"
        # A new pool for each request, because the thread of an earlier watch may close its connection only now.
        response = _pool(self._access).request("GET", url, headers=headers, timeout=timeout)
        if response.status == 200:
            return response
        # urllib3 would keep the connection for another request.
        with closing(response.connection), closing(response):
            body = response.read(_MAX_ERROR_BYTES, decode_content=False)
            raise HttpError(response.status, headers=dict(response.headers), body=body)


def _pool(access: ClusterAccess) -> VerifiedPool:
    options: Mapping[str, Any] = {
        "socket_options": [*HTTPConnection.default_socket_options, *_KEEPALIVE],
        "cert_reqs": ssl.CERT_REQUIRED if access.verify else ssl.CERT_NONE,
    }
    if access.proxy:
        manager: Any = ProxyManager(access.proxy, proxy_headers=proxy_headers(access.proxy), **options)
    else:
        manager = PoolManager(**options)
    return VerifiedPool(manager, access)

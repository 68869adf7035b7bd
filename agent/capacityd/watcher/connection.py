"""One connection of the watcher: it requests a watch of the Node, and reads the lines of the response."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from collections import deque
from urllib.parse import quote, urlsplit

from capacityd import __version__
from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.pace import retry_after_in

_TIMEOUT = 10.0
"""Seconds for connecting to each of the server's addresses, because some addresses may be dead. Also seconds for each
read of the TLS handshake and of the response's header."""
_PIECE_BYTES = 65536
_MAX_LINE_MIB = 4
"""The limit for an event. etcd stores Nodes of up to 1.5 MiB, in an encoding that is shorter than JSON."""
_ESCAPES = str.maketrans({"\\": r"\\", ",": r"\,", "=": r"\="})
"""The escapes in the value of a field selector. Source: EscapeValue in k8s.io/apimachinery, pkg/fields/selector.go."""


class WatchFailure(Exception):
    """Why the Node is not watched now. The message contains no text from the server.

    reason: the end of a sentence whose subject is the API server. look_now: whether a reconcile pass should read the
    Node at once, because a change may have been missed, or the credentials must be read again. retry_after: the
    server's Retry-After in seconds.
    """

    def __init__(self, reason: str, *, look_now: bool = False, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.look_now = look_now
        self.retry_after = retry_after


class Connection:
    """An open watch. The constructor raises WatchFailure if it cannot open the watch. context: None without TLS."""

    def __init__(self, target: ClusterAccess, context: ssl.SSLContext | None) -> None:
        self._lines: deque[bytes] = deque()
        self._unfinished_line = b""  # the start of a line whose end has not arrived yet
        server = urlsplit(target.server)
        first_hop = urlsplit(target.proxy) if target.proxy else server
        self._http = _Http(context, first_hop.hostname or "", first_hop.port)
        path = f"{server.path.rstrip('/')}/api/v1/nodes?{_query(target.node)}"
        headers = {"Accept": "application/json", "User-Agent": f"capacityd/{__version__}", **target.headers}
        if target.proxy and context:  # the proxy forwards the TLS connection
            self._http.set_tunnel(server.hostname or "", server.port or 443, dict(target.proxy_headers))
        elif target.proxy:  # without TLS, the proxy needs the whole URL
            path = f"http://{server.netloc}{path}"
            headers |= target.proxy_headers
        try:
            self._response = self._open(path, headers)
        except BaseException:
            self.close()
            raise

    def _open(self, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        try:
            self._http.request("GET", path, headers=headers)
            sock = self._http.sock  # getresponse() may set self._http.sock to None
            response = self._http.getresponse()
            sock.settimeout(None)
        except TimeoutError:
            raise WatchFailure("has not answered a watch of the Node in time") from None
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise WatchFailure(_why_unreachable(e)) from None
        if response.status != http.client.OK:
            raise refusal(response.status, retry_after_in(response.headers.get("Retry-After", "")))
        return response

    def next_line(self) -> bytes | None:
        """Returns the next line without its line break; None if the server has ended the response.

        Raises WatchFailure for a broken connection. Waits for ever if no line comes.
        """
        while not self._lines:
            try:
                piece = self._response.read1(_PIECE_BYTES)
            except (OSError, http.client.HTTPException, ValueError):
                raise WatchFailure("has closed the connection, or sent a damaged response") from None
            if not piece:
                return None
            text = self._unfinished_line + piece
            *lines, self._unfinished_line = text.split(b"\n")
            self._lines.extend(line for line in lines if line)
            if len(self._unfinished_line) > _MAX_LINE_MIB * 1024 * 1024:
                raise WatchFailure(f"has sent an event of more than {_MAX_LINE_MIB} MiB")
        return self._lines.popleft()

    def close(self) -> None:
        self._http.close()


class _Http(http.client.HTTPConnection):
    """A connection with TLS, or without TLS if the context is None."""

    def __init__(self, context: ssl.SSLContext | None, host: str, port: int | None) -> None:
        default_port = 443 if context else 80
        # Without a port, http.client would take the end of an IPv6 address for a port.
        super().__init__(host, port or default_port, timeout=_TIMEOUT)
        self._tls = context

    def connect(self) -> None:
        super().connect()
        if self._tls:
            self.sock = self._tls.wrap_socket(self.sock)  # the context checks the server's name (node/tls.py)


def refusal(status: int, retry_after: float = 0.0) -> WatchFailure:
    """The failure for this HTTP status. retry_after: the server's Retry-After in seconds."""
    if status == http.client.UNAUTHORIZED:
        return WatchFailure("rejected the watcher's credentials (HTTP 401)", look_now=True)
    if status == http.client.FORBIDDEN:
        advice = 'the identity needs a role with the verb "watch" on "nodes"'
        return WatchFailure(f"does not let the Node be watched (HTTP 403): {advice}")
    return WatchFailure(f"does not let the Node be watched now (HTTP {status})", retry_after=retry_after)


def _query(node: str) -> str:
    selector = quote(f"metadata.name={node.translate(_ESCAPES)}", safe="=")
    return f"watch=1&allowWatchBookmarks=true&fieldSelector={selector}"


def _why_unreachable(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "presented a certificate that the watcher does not accept"
    if isinstance(error, socket.gaierror):
        return "cannot be reached: its name cannot be resolved"
    is_tls_error = isinstance(error, ssl.SSLError)  # its errno is OpenSSL's number for the error
    if isinstance(error, OSError) and error.errno and not is_tls_error:
        return f"cannot be reached: {os.strerror(error.errno)}"
    return "cannot be reached, or its response is damaged"

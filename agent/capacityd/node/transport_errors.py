"""Explains why there was no response, or only a part of one: proxy, TLS, connection, time limits.

The library passes on urllib3's exceptions or wraps them, differently in each version, and says nothing of the cause.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator

from capacityd.model.errors import NodeDenied, NodeError, NodeUnreachable
from capacityd.node.errors import Call, clip, reason_of, why_not_accepted

# X509_V_ERR_* of OpenSSL's x509_vfy.h; Python's ssl module has no names for them.
_NOT_YET_VALID, _EXPIRED = 9, 10


def from_transport_error(error: BaseException, call: Call) -> NodeError:
    """Explains an exception of urllib3, ssl or socket that ended a request."""
    causes = list(_causes(error))
    for explain in (_proxy, _trust, _tls, _connection, _timeout, _closed):
        for e in causes:
            found = explain(e, call)
            if found is not None:
                return found
    known = next((os.strerror(e.errno) for e in causes if isinstance(e, OSError) and e.errno), None)
    # urllib3 1.26 first calls Python 2's methods, so a TypeError comes before each other exception.
    last = next((e for e in reversed(causes) if not isinstance(e, TypeError)), error)
    reason = known or reason_of(last)
    return NodeUnreachable(f"API server {call.server} cannot be reached, or its response is incomplete: {reason}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the exception and all that led to it, which versions keep as cause, context, reason or argument."""
    waiting, seen = [error], set()
    while waiting:
        e = waiting.pop(0)
        if id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        inner = [e.__cause__, e.__context__, getattr(e, "reason", None), *e.args]
        waiting += [x for x in inner if isinstance(x, BaseException)]


def _proxy(e: BaseException, call: Call) -> NodeError | None:
    import urllib3.exceptions

    if isinstance(e, urllib3.exceptions.ProxyError):
        return NodeUnreachable(f"the proxy in {call.kubeconfig} (proxy-url) failed: {clip(str(e.args[0]))}")
    return None


def _trust(e: BaseException, call: Call) -> NodeError | None:
    server = f"API server {call.server}"
    if isinstance(e, ssl.SSLCertVerificationError):
        return NodeDenied(f"{server} {_not_trusted(e, call)}")
    # urllib3's exception for a wrong name; its module depends on the version.
    if type(e).__name__ == "CertificateError":
        return NodeDenied(f"{server} presented a certificate for other names ({clip(str(e))}). {_right_address(call)}")
    # In TLS 1.3 the server rejects a client certificate only at the first read.
    reason = str(e.reason) if isinstance(e, ssl.SSLError) else ""
    if "ALERT" in reason and any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")):
        return NodeDenied(f"{server} rejected the client certificate ({clip(reason)}): {why_not_accepted(call)}")
    return None


def _not_trusted(e: ssl.SSLCertVerificationError, call: Call) -> str:
    if e.verify_code == _EXPIRED:
        return "presented an expired certificate. Is this machine's clock right?"
    if e.verify_code == _NOT_YET_VALID:
        return "presented a certificate that is not valid yet. Is this machine's clock right?"
    return (
        f"presented a certificate that the certificate authority in {call.kubeconfig} did not sign "
        f"({clip(e.verify_message)}). Is it the right cluster?"
    )


def _tls(e: BaseException, call: Call) -> NodeError | None:
    if isinstance(e, ssl.SSLEOFError | ssl.SSLZeroReturnError):  # an overloaded server does this too
        return NodeUnreachable(
            f"API server {call.server} closed the connection during the TLS handshake. Is it overloaded? "
            f"{_right_address(call)}"
        )
    if isinstance(e, ssl.SSLError):
        reason = clip(str(e.reason or e))
        return NodeUnreachable(f"API server {call.server}: TLS failed ({reason}). {_right_address(call)}")
    return None


def _connection(e: BaseException, call: Call) -> NodeError | None:
    import urllib3.exceptions

    server, right_address = f"API server {call.server}", _right_address(call)
    if isinstance(e, socket.gaierror):
        return NodeUnreachable(f"{server}: its name cannot be resolved ({clip(str(e.strerror))}). {right_address}")
    if isinstance(e, ConnectionRefusedError):
        return NodeUnreachable(f"{server} refused the connection. Is it running? {right_address}")
    # urllib3 raises NewConnectionError, a kind of ConnectTimeoutError, for any failure to connect.
    if isinstance(e, urllib3.exceptions.ConnectTimeoutError) and not isinstance(
        e, urllib3.exceptions.NewConnectionError
    ):
        return NodeUnreachable(f"{server}: the connection timed out. Is it running? {right_address}")
    return None


def _timeout(e: BaseException, call: Call) -> NodeError | None:
    import urllib3.exceptions

    if isinstance(e, urllib3.exceptions.ReadTimeoutError | TimeoutError):
        return NodeUnreachable(f"API server {call.server} did not respond in time")
    return None


def _closed(e: BaseException, call: Call) -> NodeError | None:
    if isinstance(e, ConnectionError):
        return NodeUnreachable(f"API server {call.server} closed the connection before it responded")
    return None


def _right_address(call: Call) -> str:
    return f"Is the address in {call.kubeconfig} right?"

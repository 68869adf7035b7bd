"""Explains why a response is missing or incomplete: proxy, TLS, connection, time limits.

The library passes on urllib3's exceptions or wraps them, differently in each version, and does not name the cause.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator

from capacityd.model.errors import NodeDenied, NodeError, NodeUnreachable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.deadline import DeadlineExceeded
from capacityd.node.errors import CREDENTIALS_ADVICE, reason_of

# X509_V_ERR_* of OpenSSL's x509_vfy.h; Python's ssl module has no names for them.
_NOT_YET_VALID, _EXPIRED = 9, 10


def from_transport_error(error: BaseException, access: ClusterAccess) -> NodeError:
    """Explains an exception of urllib3, ssl or socket that ended a request."""
    if isinstance(error, DeadlineExceeded):
        return NodeUnreachable(f"API server {access.server} did not complete its response within {error.seconds:g} s")
    causes = list(_causes(error))
    for e in causes:
        if why := _why_not_trusted(e, access):
            return NodeDenied(f"API server {access.server} {why}")
        if why := _why_no_response(e, access):
            return NodeUnreachable(why)
    known = next((os.strerror(e.errno) for e in causes if isinstance(e, OSError) and e.errno), None)
    # urllib3 1.26 first calls Python 2's methods, so a TypeError precedes each other exception.
    last = next((e for e in reversed(causes) if not isinstance(e, TypeError)), error)
    reason = known or reason_of(last, access.secrets())
    return NodeUnreachable(f"API server {access.server} cannot be reached, or its response is incomplete: {reason}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the exception and all its causes. Versions keep these as cause, context, reason or argument."""
    waiting, seen = [error], set()
    while waiting:
        e = waiting.pop(0)
        if id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        inner = [e.__cause__, e.__context__, getattr(e, "reason", None), *e.args]
        waiting += [x for x in inner if isinstance(x, BaseException)]


def _why_not_trusted(e: BaseException, access: ClusterAccess) -> str:
    if isinstance(e, ssl.SSLCertVerificationError):
        return _not_trusted(e, access)
    # urllib3's exception for a wrong name. Its module depends on the version.
    if type(e).__name__ == "CertificateError":
        names = access.quote(str(e))
        return f"presented a certificate for other names ({names}). Is the address in {access.kubeconfig} right?"
    # With TLS 1.3, the server rejects a client certificate only at the first read.
    reason = str(e.reason) if isinstance(e, ssl.SSLError) else ""
    if "ALERT" in reason and any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")):
        return f"rejected the client certificate ({access.quote(reason)}): {CREDENTIALS_ADVICE}"
    return ""


def _not_trusted(e: ssl.SSLCertVerificationError, access: ClusterAccess) -> str:
    reason = access.quote(e.verify_message)
    if e.verify_code in (_NOT_YET_VALID, _EXPIRED):
        return f"presented a certificate that is not valid now ({reason}). Is this machine's clock right?"
    return (
        f"presented a certificate that the certificate authority in {access.kubeconfig} did not sign ({reason}). Is it "
        "the right cluster?"
    )


def _why_no_response(e: BaseException, access: ClusterAccess) -> str:
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProxyError, ReadTimeoutError

    server, right_address = f"API server {access.server}", f"Is the address in {access.kubeconfig} right?"
    match e:
        case ProxyError():
            return f"the proxy in {access.kubeconfig} (proxy-url) failed: {access.quote(str(e.args[0]))}"
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():  # overloaded servers do this as well
            return f"{server} closed the connection during the TLS handshake. Is it overloaded? {right_address}"
        case ssl.SSLError():
            return f"{server}: TLS failed ({access.quote(str(e.reason or e))}). {right_address}"
        case socket.gaierror():
            return f"{server}: its name cannot be resolved ({access.quote(str(e.strerror))}). {right_address}"
        case ConnectionRefusedError():
            return f"{server} refused the connection. Is it running? {right_address}"
        case NewConnectionError():  # a subclass of ConnectTimeoutError, for any failure to connect
            return ""
        case ConnectTimeoutError():
            return f"{server}: the connection timed out. Is it running? {right_address}"
        case ReadTimeoutError() | TimeoutError():
            return f"{server} did not respond in time"
        case ConnectionError():
            return f"{server} closed the connection before it responded"
    return ""

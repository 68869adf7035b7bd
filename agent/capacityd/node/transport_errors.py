"""Explains why a response is missing or incomplete, for example because a proxy or TLS failed.

The library's versions pass on or wrap urllib3's exceptions in different ways, and do not name the cause.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterator

from capacityd.model.errors import NodeError, NodeUnauthorized, NodeUnreachable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.deadline import DeadlineExceeded
from capacityd.node.kubelet_kubeconfig import credentials_advice

# X509_V_ERR_* of OpenSSL's x509_vfy.h, for which ssl has no names.
_VALIDITY = (9, 10)  # CERT_NOT_YET_VALID, CERT_HAS_EXPIRED
_PURPOSE = 26  # INVALID_PURPOSE
_NAME = (62, 64)  # HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH


def from_transport_error(error: BaseException, access: ClusterAccess) -> NodeError:
    """Explains an exception of urllib3, ssl or socket that ended a request."""
    if isinstance(error, DeadlineExceeded):
        return NodeUnreachable(f"{access.api_server} did not complete its response within {error.seconds:g} s")
    chain = list(causes(error))
    for e in chain:
        if why := _why_not_trusted(e, access):
            return NodeUnauthorized(f"{access.api_server} {why}")
        if why := _why_no_response(e, access):
            return NodeUnreachable(why)
    # urllib3 1.26 first tries a call that only Python 2 supports. The TypeError of this call is the context of any
    # later exception.
    last = next((e for e in reversed(chain) if not isinstance(e, TypeError)), error)
    reasons = [os.strerror(e.errno) for e in chain if isinstance(e, OSError) and e.errno]
    reason = reasons[0] if reasons else type(last).__name__
    return NodeUnreachable(f"{access.api_server} cannot be reached, or its response is incomplete: {reason}")


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the exception and all its causes. urllib3 keeps a cause as cause, context, reason or argument."""
    waiting = [error]
    seen: set[int] = set()
    while waiting:
        e = waiting.pop(0)
        if id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        possible = [e.__cause__, e.__context__, getattr(e, "reason", None), *e.args]
        waiting += [cause for cause in possible if isinstance(cause, BaseException)]


def _why_not_trusted(e: BaseException, access: ClusterAccess) -> str:
    """Why one side did not trust the other side's certificate, as the end of a sentence; "" for any other error."""
    if isinstance(e, ssl.SSLCertVerificationError):
        return _why_server_not_trusted(e, access)
    # The server's TLS alert. With TLS 1.3, it arrives only at the first read after the handshake.
    reason = str(e.reason) if isinstance(e, ssl.SSLError) else ""
    if "ALERT" in reason and any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")):
        return f"rejected the client certificate ({_code(e)}): {credentials_advice(access)}"
    return ""


def _code(e: BaseException) -> str:
    """OpenSSL's name of an error, such as TLSV1_ALERT_UNKNOWN_CA; otherwise the name of the exception's type."""
    reason = str(getattr(e, "reason", None) or "")
    return reason if re.fullmatch(r"\w+", reason, re.ASCII) else type(e).__name__


def _why_server_not_trusted(e: ssl.SSLCertVerificationError, access: ClusterAccess) -> str:
    if e.verify_code in _NAME:  # no reason is shown, because OpenSSL's text quotes the name in the certificate
        return "presented a certificate for other names, or without subjectAltName. Is its address right?"
    reason = e.verify_message  # OpenSSL's text for the code
    if e.verify_code == _PURPOSE:
        return f"presented a certificate that is not for a server ({reason}): it needs serverAuth in extendedKeyUsage"
    if e.verify_code in _VALIDITY:
        return f"presented a certificate that is not valid now ({reason}). Is this machine's clock right?"
    if access.authority is None:
        return (
            f"presented a certificate that no authority of this system signed ({reason}). The file names no "
            "certificate-authority; add the cluster's"
        )
    return (
        f"presented a certificate that the certificate authority in the same file did not sign ({reason}). Is it the "
        "right cluster?"
    )


def _why_no_response(e: BaseException, access: ClusterAccess) -> str:
    """Why there was no response; "" if this exception does not say."""
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProxyError, ReadTimeoutError

    server = access.api_server
    address_question = "Is its address right?"
    match e:
        case ProxyError():
            return f"the proxy in {access.kubeconfig} (proxy-url) failed"
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():  # an overloaded server also closes the connection
            return f"{server} closed the connection during the TLS handshake. Is it overloaded? {address_question}"
        case ssl.SSLError():
            return f"{server}: TLS failed ({_code(e)}). {address_question} Does it speak https?"
        case socket.gaierror():
            return f"{server}: its name cannot be resolved ({e.strerror}). {address_question}"
        case ConnectionRefusedError():
            return f"{server} refused the connection. Is it running? {address_question}"
        case NewConnectionError():  # a subclass of ConnectTimeoutError for any failure; its cause says which
            return ""
        case ConnectTimeoutError():
            return f"{server}: the connection timed out. Is it running? {address_question}"
        case ReadTimeoutError() | TimeoutError():
            return f"{server} did not respond in time"
        case ConnectionError():
            message = f"{server} closed the connection before it responded"
            return f"{message}. It was asked with http; does it speak https?" if access.is_without_tls else message
    return ""

"""Explains why a response is missing or incomplete, for example because a proxy or TLS failed.

The versions of the kubernetes library wrap urllib3's exceptions in different ways, and do not name the cause.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterator

from capacityd.model.errors import NodeError, NodeUnauthorized, NodeUnreachable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.kubelet_kubeconfig import credentials_advice

# X509_V_ERR_* of OpenSSL's x509_vfy.h, for which ssl has no names.
_VALIDITY = (9, 10)  # CERT_NOT_YET_VALID, CERT_HAS_EXPIRED
_NAME = (62, 64)  # HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH


def from_transport_error(error: BaseException, access: ClusterAccess) -> NodeError:
    """Turns an exception of urllib3, ssl or socket into a NodeError that names the cause."""
    chain = list(causes(error))
    for e in chain:
        if why := _why_not_trusted(e, access):
            return NodeUnauthorized(f"{access.api_server} {why}")
        if why := _why_no_response(e, access):
            return NodeUnreachable(why)
    reasons = [os.strerror(e.errno) for e in chain if isinstance(e, OSError) and e.errno]
    reason = reasons[0] if reasons else type(error).__name__
    return NodeUnreachable(f"{access.api_server} cannot be reached, or its response is incomplete: {reason}")


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the exception and all its causes. urllib3 keeps causes in __cause__, __context__, reason or args."""
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
    """Why the server's or the client's certificate was rejected, as the end of a sentence; "" for any other error."""
    if isinstance(e, ssl.SSLCertVerificationError):
        return _why_server_not_trusted(e, access)
    # With TLS 1.3, the server's alert arrives only at the first read after the handshake.
    reason = str(e.reason) if isinstance(e, ssl.SSLError) else ""
    if "ALERT" in reason and any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")):
        return f"rejected the client certificate ({_code(e)}): {credentials_advice(access)}"
    return ""


def _code(e: BaseException) -> str:
    """OpenSSL's name of an error, such as TLSV1_ALERT_UNKNOWN_CA; otherwise the name of the exception's type."""
    reason = str(getattr(e, "reason", None) or "")
    return reason if re.fullmatch(r"\w+", reason, re.ASCII) else type(e).__name__


def _why_server_not_trusted(e: ssl.SSLCertVerificationError, access: ClusterAccess) -> str:
    if e.verify_code in _NAME:  # OpenSSL's text is not shown, because it quotes the name in the certificate
        return "presented a certificate for other names, or without subjectAltName. Is its address right?"
    if e.verify_code in _VALIDITY:
        advice = "Is this machine's clock right?"
    elif access.authority is None:
        advice = "The file names no certificate-authority; add the cluster's"
    else:
        advice = "Is the certificate-authority in the same file that of this cluster?"
    return f"presented a certificate that cannot be trusted ({e.verify_message}). {advice}"


def _why_no_response(e: BaseException, access: ClusterAccess) -> str:
    """Why there was no response; "" if this exception does not tell."""
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
        case NewConnectionError():  # any failed connection, as a ConnectTimeoutError; its cause tells more
            return ""
        case ConnectTimeoutError():
            return f"{server}: the connection timed out. Is it running? {address_question}"
        case ReadTimeoutError() | TimeoutError():
            return f"{server} did not respond in time"
        case ConnectionError():
            return f"{server} closed the connection before it responded. Is its address right, with https or http?"
    return ""

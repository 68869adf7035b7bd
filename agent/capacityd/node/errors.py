"""Turns a failed request into a NodeError with advice.

A request fails with an HTTP status other than 2xx, or with an exception of urllib3, ssl or socket.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import (
    NodeConflict,
    NodeError,
    NodeForbidden,
    NodeMissing,
    NodeRejected,
    NodeUnauthorized,
    NodeUnreachable,
)
from capacityd.model.pace import retry_after_in
from capacityd.model.quoting import length_text, shortened
from capacityd.model.text import printable
from capacityd.node.documents.status import Status, status_of
from capacityd.node.kubelet_kubeconfig import credentials_advice
from capacityd.node.own_node import KUBELET_PREFIX

_MAX_QUOTED = 300
"""The maximum length of a quoted text, in characters."""
_ANONYMOUS = "system:anonymous"
_AUTHORIZER_DENIAL = re.compile(r'User "([^"]+)" cannot ')
"""The user's name in an authorizer's message.

Source: forbiddenMessage in k8s.io/apiserver, pkg/endpoints/handlers/responsewriters/errors.go."""
_NODE_RESTRICTION_DENIAL = re.compile(r'node "[^"]*" is not allowed to modify node "')
"""The message of the admission plugin NodeRestriction if a kubelet writes another Node.

Source: admitNode in k8s.io/kubernetes, plugin/pkg/admission/noderestriction/admission.go."""
_ADMISSION_DENIAL = re.compile(r"""admission webhook ".*" denied the request|[Pp]olicy ['"].*['"] denied request""")
"""The message of an admission webhook or policy that denied the request. The HTTP status does not show a denial by
admission, because a webhook may choose any status from 400, and a policy one of three.

Source: ToStatusErr in k8s.io/apiserver, pkg/admission/plugin/webhook/errors/statuserror.go;
pkg/admission/plugin/policy/validating/dispatcher.go and generic/policy_dispatcher.go."""
_NOT_READY = "is forbidden: not yet ready to handle request"
"""The end of an admission plugin's message while the API server starts. The HTTP status is 403, like that of a denial.

Source: Dispatch in k8s.io/apiserver, pkg/admission/plugin/policy/generic/plugin.go."""


# Values of verify_code: X509_V_ERR_* of OpenSSL's x509_vfy.h, for which ssl has no names.
_NOT_SIGNED_BY_AUTHORITY = (7, 20)  # CERT_SIGNATURE_FAILURE, UNABLE_TO_GET_ISSUER_CERT_LOCALLY
_WRONG_TIME = (9, 10)  # CERT_NOT_YET_VALID, CERT_HAS_EXPIRED
_WRONG_NAME = (62, 64)  # HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH
_CLIENT_CERTIFICATE_REJECTED = re.compile(".*_ALERT_.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED).*")
"""OpenSSL's names of the alerts about the client's certificate. With TLS 1.3, such an alert arrives only at the first
read after the handshake."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the API server, as described in error messages."""

    verb: str
    """The verb's name in a role, e.g. "patch"."""
    resource: str
    """The resource's name in a role, e.g. "nodes/status"."""


def from_http_status(code: int, body: bytes, call: Call, access: ClusterAccess, retry_after: str = "") -> NodeError:
    """Turns a response with a status other than 2xx into a NodeError. The first condition that applies decides.

    retry_after: the text of the header Retry-After.
    """
    status = status_of(body)
    may_lack_status = code >= 500 or code in (401, 429)
    if status is None and not may_lack_status:
        return NodeUnreachable(
            f"the server in {access.kubeconfig} is not an API server (HTTP {code} for {call.verb} "
            f"{call.resource}). Is its address right, or does a proxy or a firewall on the way refuse the request?"
        )
    status = status or Status()
    message = quotable(status.message, access.token)
    reason = quotable("; ".join(status.causes), access.token) or message
    answer = f"{access.api_server} answered {call.verb} {call.resource} with HTTP {code}{_after_colon(reason)}"
    if code < 500 and _ADMISSION_DENIAL.search(status.message):
        return NodeRejected(answer, reason=message)
    is_starting = status.message.strip().endswith(_NOT_READY)
    if code in (410, 429) or code >= 500 or is_starting:  # 410: the list or the watch is too old
        question = "Does an admission webhook not answer?" if code == 504 else "Does it start, or is it overloaded?"
        return NodeUnreachable(f"{answer}. {question}", retry_after=retry_after_in(retry_after))
    if code == 401:
        return NodeUnauthorized(f"{answer}. It rejected the credentials in the same file: {credentials_advice()}")
    if code == 403 and not _denies_content(call, status):
        return _forbidden(call, status, access.impersonated, answer)
    if code == 404 and status.resource == "nodes":
        return NodeMissing(access.api_server, node=access.node)
    if code == 409 and call.verb == "patch":
        changed = f'Node "{access.node}" has changed since it was read (HTTP 409)'
        return NodeConflict(changed, reason=f"HTTP 409{_after_colon(reason)}")
    return NodeRejected(answer, reason=reason)


def _user_in(status: Status) -> str:
    """The user in an authorizer's message; "" if the message is not from an authorizer."""
    match = _AUTHORIZER_DENIAL.search(status.message)
    return match[1] if match else ""


def _denies_content(call: Call, status: Status) -> bool:
    """Whether a 403 denies the content of the request, and not the right to send it."""
    sends_content = call.resource in ("nodes/status", "events")
    return sends_content and not _user_in(status) and not _NODE_RESTRICTION_DENIAL.search(status.message)


def _forbidden(call: Call, status: Status, impersonated: str | None, answer: str) -> NodeUnauthorized:
    """The error for an identity that lacks the right to send the request. answer: the start of the message."""
    user = _user_in(status)
    if user == _ANONYMOUS:  # for wrong credentials, the status would be 401
        return NodeUnauthorized(
            f"{answer}. The request arrived without credentials. Has its user a token or a client certificate? Does a "
            "proxy or a load balancer on the way end TLS, and so remove the client certificate?"
        )
    namespace = ' in the namespace "default"' if call.resource == "events" else ""
    advice = f'The identity needs a role with the verb "{call.verb}" on "{call.resource}"{namespace}'
    if impersonated and "impersonate" in status.message:
        advice = (
            f'The kubeconfig lets the identity act as "{impersonated}" (as). This needs Kubernetes 1.36 or later, the '
            "roles in identity-own-node.yaml, and a token that is bound to this Node. With an older Kubernetes, use "
            'identity.yaml, and remove "as"'
        )
    elif user.startswith(KUBELET_PREFIX) or _NODE_RESTRICTION_DENIAL.search(status.message):
        advice = "A kubelet's identity has access to its own Node only"
    return NodeForbidden(f"{answer}. {advice}")


def quotable(text: str, token: str | None) -> str:
    """Returns the text in printable form and of limited length, so that a message can quote it.

    If the text contains the token, returns only the text's length.
    """
    if token and token in text:
        return f"(a text with the token, {length_text(text)})"
    return shortened(printable(text.strip()), _MAX_QUOTED)


def _after_colon(text: str) -> str:
    return f": {text}" if text else ""


def from_transport_error(error: BaseException, access: ClusterAccess) -> NodeError:
    """Turns an exception of urllib3, ssl or socket into a NodeError that names the cause."""
    from urllib3.exceptions import ProxyError

    *_, root_cause = _causes(error)
    if isinstance(root_cause, ssl.SSLCertVerificationError):
        return NodeUnauthorized(f"{access.api_server} presented a certificate {_why_not_trusted(root_cause, access)}")
    reason = _reason(root_cause)
    if _CLIENT_CERTIFICATE_REJECTED.fullmatch(reason):
        return NodeUnauthorized(
            f"{access.api_server} rejected the client certificate ({reason}): {credentials_advice()}"
        )
    peer = access.api_server
    if any(isinstance(e, ProxyError) for e in _causes(error)):
        peer = f"the proxy in {access.kubeconfig} (proxy-url)"
    return NodeUnreachable(
        f"{peer} cannot be reached, or its response is incomplete ({reason}). Is it running or overloaded? Is its "
        "address right, with https or http?"
    )


def is_signed_by_other_authority(error: BaseException) -> bool:
    """Whether the server's certificate was signed by another authority than the one that OpenSSL has tried."""
    *_, root_cause = _causes(error)
    return isinstance(root_cause, ssl.SSLCertVerificationError) and root_cause.verify_code in _NOT_SIGNED_BY_AUTHORITY


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the exception, its cause, the cause of the cause, and so on. urllib3 wraps the error of ssl or socket."""
    cause: BaseException | None = error
    while cause:
        yield cause
        is_explicit = cause.__cause__ is not None or cause.__suppress_context__  # as in a traceback
        cause = cause.__cause__ if is_explicit else cause.__context__


def _why_not_trusted(error: ssl.SSLCertVerificationError, access: ClusterAccess) -> str:
    """Why the server's certificate was rejected, as the end of a sentence about the certificate."""
    if error.verify_code in _WRONG_NAME:  # the message omits OpenSSL's text, which quotes the name in the certificate
        return "for other names, or without subjectAltName. Is its address right?"
    if error.verify_code in _WRONG_TIME:
        advice = "Is this machine's clock right?"
    elif access.authority is None:
        advice = "The file names no certificate-authority; add the cluster's"
    else:
        advice = "Is the certificate-authority in the same file that of this cluster?"
    return f"that cannot be trusted ({error.verify_message}). {advice}"


def _reason(error: BaseException) -> str:
    """What OpenSSL, the resolver or the kernel calls an error; otherwise the name of the exception's type.

    Messages omit the exception's own text, because it may quote the server.
    """
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "it ended the TLS handshake"
    if isinstance(error, ssl.SSLError):  # its errno is not one of the kernel's
        name = str(error.reason or "")
        is_name = re.fullmatch(r"\w+", name, re.ASCII)
        return name if is_name else type(error).__name__
    if isinstance(error, socket.gaierror):
        return f"its name cannot be resolved: {error.strerror}"
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return type(error).__name__

"""Turns a library's exception, or an HTTP error of the API server, into a NodeError with advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from capacityd.model.errors import (
    CapacitydError,
    ListExpired,
    NodeConflict,
    NodeError,
    NodeForbidden,
    NodeMissing,
    NodeRejected,
    NodeUnauthorized,
    NodeUnreachable,
)
from capacityd.model.modules import import_failure
from capacityd.model.text import printable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.documents.fields import InvalidDocument
from capacityd.node.identity import KUBELET_PREFIX, is_kubelet_of
from capacityd.node.kubelet_kubeconfig import credentials_advice
from capacityd.node.refusal import Call, HttpError, Refusal, refusal_of

_ANONYMOUS = "system:anonymous"


@contextmanager
def no_library_error(explain: Callable[[Exception], NodeError]) -> Iterator[None]:
    """Replaces every exception of a library with the NodeError that explain() returns.

    Libraries also raise undocumented exceptions. For example, yaml raises KeyError for "!!bool x".
    """
    try:
        yield
    except CapacitydError:
        raise
    except Exception as e:  # noqa: BLE001  # explain() handles it
        if failure := import_failure(e):  # a library is missing or can't be imported
            raise failure from None
        # Not "from e", because a traceback would show the library's message, which may contain a secret.
        raise explain(e) from None


def reason_of(error: BaseException) -> str:
    """The system's text for an OSError, otherwise the exception's type. A library's text may quote a file's content."""
    return error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__


def from_http_status(error: HttpError, call: Call) -> NodeError:
    """Explains a response with a status other than 2xx. The first row that applies decides:

    ==================  ===============================================  =========================================
    HTTP status         if                                               error
    ==================  ===============================================  =========================================
    4xx                 an admission policy or webhook denied the write  NodeRejected
    409                 the request was a write                          NodeConflict
    410                 the request was a list                           ListExpired
    403                 the API server is starting                       NodeUnreachable
    410, 429, 5xx                                                        NodeUnreachable
    401                                                                  NodeUnauthorized
    403                 the request counted as anonymous                 NodeUnauthorized
    403                 the request was denied whatever its content      NodeForbidden
    404                 the Node does not exist                          NodeMissing
    < 400, or no Status object                                           NodeUnreachable: it is no API server
    any other           (the content was denied)                         NodeRejected
    ==================  ===============================================  =========================================
    """
    refusal = refusal_of(call, error)
    status = refusal.status
    if refusal.denied_by_admission and status < 500:
        return _rejected(refusal, why=refusal.message)
    if call.is_write and status == 409:
        return _conflict(refusal)
    if status == 410 and call.verb == "list":
        return _list_expired(call)
    if refusal.is_from_starting_server or status in (410, 429) or status >= 500:
        return _unavailable(refusal)
    if status == 401:
        return _wrong_credentials(call)
    if status == 403 and refusal.user == _ANONYMOUS:
        return _not_recognised(call.access)
    if refusal.denies_any_content:
        return _forbidden(refusal)
    if status == 404 and refusal.resource == "nodes":
        return _missing(call)
    if status < 400 or not refusal.is_status:
        return _no_api_server(refusal)
    return _rejected(refusal, why=refusal.reason)


def from_invalid_content(error: Exception, call: Call, subject: str) -> NodeUnreachable:
    """Explains a 2xx response that cannot be parsed. subject: the message's word for the response, such as "it"."""
    if isinstance(error, InvalidDocument):
        return unexpected_response(call, str(error))
    return unexpected_response(call, f"{subject} is not JSON, or is incomplete")


def unexpected_response(call: Call, reason: str) -> NodeUnreachable:
    """The error for a 2xx response that cannot be used."""
    return NodeUnreachable(
        f"{call.access.api_server} sent a response that cannot be used ({call.verb} {call.resource}): {reason}"
    )


def _rejected(refusal: Refusal, why: str) -> NodeRejected:
    """The error for a request whose content was denied. why: the API server's reason; "" if unknown."""
    call = refusal.call
    message = f"{call.access.api_server} refused to {call.verb} {call.resource} (HTTP {refusal.status})"
    return NodeRejected(f"{message}{_after_colon(why)}", reason=why)


def _conflict(refusal: Refusal) -> NodeConflict:
    message = f'Node "{refusal.call.node}" has changed since it was read (HTTP {refusal.status})'
    return NodeConflict(message, reason=f"HTTP {refusal.status}{_after_colon(refusal.reason)}")


def _list_expired(call: Call) -> ListExpired:
    return ListExpired(
        f"{call.access.api_server} no longer has the rest of the list of {call.resource} (HTTP 410), which it keeps "
        "for at least five minutes. Select fewer Nodes (-l), or use a faster network"
    )


def _unavailable(refusal: Refusal) -> NodeUnreachable:
    call, error = refusal.call, refusal.error
    # Not refusal.reason, which lists causes: the user can't correct the causes of a server error.
    why = refusal.message
    message = f"{call.access.api_server} is unavailable (HTTP {error.status}){_after_colon(why)}"
    if error.status >= 500 and call.is_write:
        if error.status == HTTPStatus.GATEWAY_TIMEOUT:
            message += ". Does an admission webhook not answer?"
        message += ". Until a write succeeds, the Node's condition may be out of date"
    return NodeUnreachable(message, retry_after=error.retry_after)


def _wrong_credentials(call: Call) -> NodeUnauthorized:
    # api_server names the kubeconfig, which is "the same file".
    message = f"{call.access.api_server} rejected the credentials in the same file (HTTP 401)"
    return NodeUnauthorized(f"{message}: {credentials_advice(call.access)}")


def _not_recognised(access: ClusterAccess) -> NodeUnauthorized:
    """The error for a request that arrived without credentials. For wrong credentials, the response is HTTP 401."""
    why = (
        "does a proxy or a load balancer on the way end TLS, and remove the client certificate?"
        if access.token or access.certificate
        else "its user has no token and no client certificate"
    )
    return NodeUnauthorized(
        f"{access.api_server} did not recognise the credentials in the same file, and treated the request as "
        f"{_ANONYMOUS} (HTTP 403): {why}"
    )


def _missing(call: Call) -> NodeMissing:
    access = call.access
    named_by_credentials = is_kubelet_of(call.user, call.node)
    return NodeMissing(access.api_server, node=call.node, named_by_credentials=named_by_credentials)


def _forbidden(refusal: Refusal) -> NodeForbidden:
    call, user = refusal.call, refusal.user
    who = f'the identity "{printable(user)}"' if user else f"the identity in {call.access.kubeconfig}"
    return NodeForbidden(
        f"{who} may not {call.verb} {_target(call)} (HTTP 403): {_rights_advice(refusal)} The API server's message: "
        f"{refusal.message}"
    )


def _target(call: Call) -> str:
    """The object that the request reads or writes, for a message."""
    node = f'Node "{call.node}"' if call.node else "nodes"
    match call.resource:
        case "nodes":
            return node
        case "nodes/status":
            return f"nodes/status of {node}"
    return call.resource


def _rights_advice(refusal: Refusal) -> str:
    """How to get the right to send the request, or why that is impossible. The text ends with a full stop."""
    call = refusal.call
    if refusal.denies_impersonation:
        impersonated = call.access.impersonated
        acts_as = f'the kubeconfig lets it act as "{impersonated}" (as).'
        if not impersonated.startswith(KUBELET_PREFIX):
            return f"{acts_as} This needs the right to impersonate that user."
        return (
            f"{acts_as} For a Node, this needs Kubernetes 1.36 or later, the roles in identity-own-node.yaml, and a "
            'token that is bound to this Node. With an older Kubernetes, use identity.yaml, and remove "as".'
        )
    if refusal.is_to_other_kubelet:
        return "a kubelet's identity has access to its own Node only."
    if refusal.user.startswith(KUBELET_PREFIX):
        return "is the Node authorizer enabled (--authorization-mode=Node)?"
    namespace = ' in the namespace "default"' if call.resource == "events" else ""
    return f'it needs a role with the verb "{call.verb}" on "{call.resource}"{namespace}.'


def _no_api_server(refusal: Refusal) -> NodeUnreachable:
    call = refusal.call
    scheme = " It was asked with http; does it speak https?" if call.access.is_without_tls else ""
    return NodeUnreachable(
        f"the server in {call.access.kubeconfig} is not an API server (HTTP {refusal.status} for {call.verb} "
        f"{call.resource}). Is its address right, or does a proxy or a firewall on the way refuse the request?{scheme}"
    )


def _after_colon(text: str) -> str:
    return f": {text}" if text else ""

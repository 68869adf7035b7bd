"""Turns a library's exception or the API server's refusal into a NodeError with advice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from capacityd.model.errors import (
    CapacitydError,
    ListExpired,
    NodeConflict,
    NodeDenied,
    NodeError,
    NodeForbidden,
    NodeMissing,
    NodeRejected,
    NodeUnreachable,
    NodeWriteFailed,
)
from capacityd.model.modules import missing_module
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.documents.status import StatusDetails, status_details
from capacityd.node.redaction import NO_SECRETS, Secrets

_ANONYMOUS = "system:anonymous"
_OTHER_NODE = re.compile(r'node "[^"]*" is not allowed to modify node "')
_NOT_READY = "is forbidden: not yet ready to handle request"
"""The end of an admission plugin's message while the API server starts. The HTTP status is 403, as for a denial.

Source: Dispatch in k8s.io/apiserver, pkg/admission/plugin/policy/generic/plugin.go."""
_FORBIDDEN_USER = re.compile(r'User "([^"]+)" cannot ')
"""The user's name in an authorizer's message."""
CREDENTIALS_ADVICE = "are they expired, revoked, or of another cluster? Does kubectl work with the same kubeconfig?"
"""Advice if the API server rejects the credentials."""
_MAX_RETRY_AFTER = 3600.0
"""Seconds; if a server asks for a longer wait, we retry after this time."""


class HttpError(Exception):
    """A response with a status other than 2xx, before from_http_status() explains it."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def retry_after(self) -> float | None:
        """The server's Retry-After in seconds. The server never sends a date."""
        text = next((value for name, value in self.headers.items() if name.lower() == "retry-after"), "")
        return min(float(text), _MAX_RETRY_AFTER) if re.fullmatch(r"[0-9]{1,9}", text.strip(), re.ASCII) else None


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the API server, with the details that error messages use."""

    access: ClusterAccess
    verb: str = ""
    """The verb as in a role, e.g. "patch"."""
    resource: str = ""
    """The resource as in a role, e.g. "nodes/status"."""
    node: str = ""
    identity: str = ""
    """Our user name according to the API server; "" if unknown."""


@contextmanager
def no_library_error(explain: Callable[[Exception], NodeError]) -> Iterator[None]:
    """Replaces every exception of a library with the NodeError that explain() returns.

    Libraries raise undocumented exceptions: kubernetes raises ApiException for urllib3's SSLError, yaml raises KeyError
    for "!!bool x". No library's exception leaves node/.
    """
    try:
        yield
    except CapacitydError:
        raise
    except ImportError as e:
        raise missing_module(e) from None
    except Exception as e:  # noqa: BLE001  # explain() handles it
        # Not "from e": a traceback would show the library's message, which may contain a secret.
        raise explain(e) from None


def reason_of(error: BaseException, secrets: Secrets = NO_SECRETS) -> str:
    """Returns a library's exception message on one line, or the exception's type if the message is empty."""
    if isinstance(error, OSError) and error.errno and error.strerror:
        return secrets.quote(str(error.strerror))
    return secrets.quote(" ".join(str(error).split())) or type(error).__name__


def from_http_status(error: HttpError, call: Call) -> NodeError:
    """Explains a response with a status other than 2xx."""
    details = status_details(error.body, call.access.secrets())
    status, server = error.status, call.access.api_server
    text = NO_SECRETS.quote("; ".join(details.causes) or details.message)
    reason = f": {text}" if text else ""
    if details.denied:
        return _rejected(call, status, details.message)
    # The API server reports a failed test and an invalid value both as 422. Only the latter has causes.
    guard_failed = status == 422 and details.is_status and not details.causes
    if (guard_failed or status == 409) and call.resource == "nodes/status":
        message = f'Node "{call.node}" has changed since it was read (HTTP {status})'
        return NodeConflict(message, f"HTTP {status}{reason}")
    starting = status == 403 and details.message.endswith(_NOT_READY)
    if status == 410 and call.verb == "list":
        return ListExpired(
            f"{server} no longer has the rest of the list of {call.resource} (HTTP 410), which it keeps for "
            "at least five minutes. Select fewer Nodes (-l), or use a faster network"
        )
    if status in (410, 429) or status >= 500 or starting:
        # The causes of a server error are not validation errors: the user can't correct them.
        return _unavailable(call, error, details.message)
    if status == 401:
        return NodeDenied(
            f"{server} rejected the credentials in the same file (HTTP 401): {CREDENTIALS_ADVICE}",
            detail=call.access.address,
        )
    if status == 403 and (call.identity or _user_in(details.message)) == _ANONYMOUS:
        return NodeDenied(_not_recognised(call.access), detail=call.access.address)
    if status == 403 and (call.resource != "nodes/status" or _is_of_authorizer(call, details)):
        return NodeForbidden(_forbidden(call, details))
    if status == 404 and details.resource == "nodes":
        return NodeMissing(server, call.node, detail=call.access.address)
    if status < 400 or not details.is_status:
        return NodeUnreachable(
            f"the server in {call.access.kubeconfig} is not an API server (HTTP {status} for {call.verb} "
            f"{call.resource}). Is its address right?",
            detail=call.access.address,
        )
    return _rejected(call, status, text)


def _rejected(call: Call, status: int, text: str) -> NodeRejected:
    reason = f": {text}" if text else ""
    return NodeRejected(
        f"{call.access.api_server} refused to {call.verb} {call.resource} (HTTP {status}){reason}", text
    )


def _unavailable(call: Call, error: HttpError, text: str) -> NodeUnreachable:
    reason = f": {text}" if text else ""
    message = f"{call.access.api_server} is unavailable (HTTP {error.status}){reason}"
    if error.status >= 500 and call.resource == "nodes/status":
        message += ". Until a write succeeds, the Node's condition may be out of date"
        return NodeWriteFailed(message, error.retry_after, _rejected(call, error.status, text))
    return NodeUnreachable(message, error.retry_after, detail=call.access.address)


def unexpected_response(call: Call, reason: str, detail: str = "") -> NodeUnreachable:
    """The error for a 2xx response that cannot be used. detail: text from the response."""
    return NodeUnreachable(
        f"{call.access.api_server} sent a response that cannot be used ({call.verb} {call.resource}): {reason}",
        detail="; ".join(filter(None, (call.access.address, detail))),
    )


def _is_of_authorizer(call: Call, details: StatusDetails) -> bool:
    """Whether HTTP 403 denies the request regardless of its content. Admission plugins deny a content.

    The authorizer's messages have a fixed start. The admission plugin NodeRestriction also denies the request itself if
    the Node is not the kubelet's own. Source: forbiddenMessage in k8s.io/apiserver,
    pkg/endpoints/handlers/responsewriters/errors.go.
    """
    authorizer = not details.is_status or _FORBIDDEN_USER.search(details.message) is not None
    return authorizer or _is_of_other_node(call.identity, call, details)


def _is_of_other_node(user: str, call: Call, details: StatusDetails) -> bool:
    """Whether the credentials belong to another Node's kubelet, judged by the user or by the refused request.

    The user has changed if the token was replaced with another Node's. Before Kubernetes 1.32, such a token can read
    our Node, so only NodeRestriction refuses it. Source: admitNode in k8s.io/kubernetes,
    plugin/pkg/admission/noderestriction/admission.go.
    """
    foreign = user.startswith("system:node:") and user != f"system:node:{call.node}"
    return foreign or _OTHER_NODE.search(details.message) is not None


def _not_recognised(access: ClusterAccess) -> str:
    """The message for a request that arrived without credentials. Wrong credentials lead to HTTP 401 instead."""
    why = (
        "does a proxy or a load balancer on the way end TLS, and remove the client certificate?"
        if access.token or access.certificate
        else "its user has no token and no client certificate"
    )
    return (
        f"{access.api_server} did not recognise the credentials in the same file, and treated the request as "
        f"{_ANONYMOUS} (HTTP 403): {why}"
    )


def _forbidden(call: Call, details: StatusDetails) -> str:
    user = call.identity or _user_in(details.message)
    who = f'the identity "{call.access.quote(user)}"' if user else f"the identity in {call.access.kubeconfig}"
    node = f'Node "{call.node}"' if call.node else "nodes"
    target = {"nodes": node, "nodes/status": f"nodes/status of {node}"}.get(call.resource, call.resource)
    if _is_of_other_node(user, call, details):
        advice = "a kubelet's identity has access to its own Node only."
    elif user.startswith("system:node:"):
        advice = "is the Node authorizer enabled (--authorization-mode=Node)?"
    else:
        namespace = ' in the namespace "default"' if call.resource == "events" else ""
        advice = f'it needs a role with the verb "{call.verb}" on "{call.resource}"{namespace}.'
    return f"{who} may not {call.verb} {target} (HTTP 403): {advice} The API server's message: {details.message}"


def _user_in(message: str) -> str:
    match = _FORBIDDEN_USER.search(message)
    return match[1] if match else ""

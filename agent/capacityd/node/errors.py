"""Turns a response with a status other than 2xx into a NodeError with advice."""

from __future__ import annotations

import re
from dataclasses import dataclass

from capacityd.model.errors import (
    NodeConflict,
    NodeError,
    NodeForbidden,
    NodeMissing,
    NodeRejected,
    NodeUnauthorized,
    NodeUnreachable,
)
from capacityd.model.quoting import length_text
from capacityd.model.text import printable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.connection import HttpError
from capacityd.node.documents.status import Status, status_of
from capacityd.node.identity import KUBELET_PREFIX
from capacityd.node.kubelet_kubeconfig import credentials_advice

_MAX_QUOTED = 300
"""The maximum length of a quoted text, in characters."""
_ANONYMOUS = "system:anonymous"
_BY_AUTHORIZER = re.compile(r'User "([^"]+)" cannot ')
"""The user's name in an authorizer's message.

Source: forbiddenMessage in k8s.io/apiserver, pkg/endpoints/handlers/responsewriters/errors.go."""
_OTHER_NODE = re.compile(r'node "[^"]*" is not allowed to modify node "')
"""The message of the admission plugin NodeRestriction if a kubelet writes another Node.

Source: admitNode in k8s.io/kubernetes, plugin/pkg/admission/noderestriction/admission.go."""
_BY_ADMISSION = re.compile(r"""admission webhook ".*" denied the request|[Pp]olicy ['"].*['"] denied request""")
"""The message of an admission webhook or policy that denied the request. The HTTP status does not show a denial by
admission, because a webhook may choose any status from 400, and a policy any of three.

Source: ToStatusErr in k8s.io/apiserver, pkg/admission/plugin/webhook/errors/statuserror.go;
pkg/admission/plugin/policy/validating/dispatcher.go and generic/policy_dispatcher.go."""
_NOT_READY = "is forbidden: not yet ready to handle request"
"""The end of an admission plugin's message while the API server starts. The HTTP status is 403, like that of a denial.

Source: Dispatch in k8s.io/apiserver, pkg/admission/plugin/policy/generic/plugin.go."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the API server, as described in error messages."""

    access: ClusterAccess
    verb: str
    """The verb's name in a role, e.g. "patch"."""
    resource: str
    """The resource's name in a role, e.g. "nodes/status"."""
    node: str = ""
    """The name of the Node; "" if the request is not about a single Node."""

    @property
    def is_write(self) -> bool:
        """Whether the request writes the Node."""
        return self.resource == "nodes/status"


def from_http_status(error: HttpError, call: Call) -> NodeError:
    """Turns a response with a status other than 2xx into a NodeError. The first row that applies decides:

    ==================  ===============================================  =========================================
    HTTP status         if                                               error
    ==================  ===============================================  =========================================
    4xx                 an admission policy or webhook denied it         NodeRejected
    403                 the API server is starting                       NodeUnreachable
    410, 429, 5xx                                                        NodeUnreachable
    401                                                                  NodeUnauthorized
    any other           the response is no Status, or the code is < 400  NodeUnreachable: it is no API server
    409                 the request was a write                          NodeConflict
    403                 the request counted as anonymous                 NodeUnauthorized
    403                 the denial is not about the content              NodeForbidden
    404                 the Node does not exist                          NodeMissing
    any other           (the content was denied)                         NodeRejected
    ==================  ===============================================  =========================================
    """
    code, status = error.status, status_of(error.body)
    text = status.message if status else ""
    message = quotable(text, call.access.token)
    if code < 500 and _BY_ADMISSION.search(text):
        return _rejected(call, code, message)
    is_starting = code == 403 and text.strip().endswith(_NOT_READY)
    if is_starting or code in (410, 429) or code >= 500:
        return _unavailable(call, error, message)
    if code == 401:
        return _wrong_credentials(call.access)
    if status is None or code < 400:
        return _no_api_server(call, code)
    reason = quotable("; ".join(status.causes), call.access.token) or message
    if code == 409 and call.is_write:
        text = f'Node "{call.node}" has changed since it was read (HTTP 409)'
        return NodeConflict(text, reason=f"HTTP 409{_after_colon(reason)}")
    if code == 403 and _user_in(status) == _ANONYMOUS:
        return _not_recognised(call.access)
    if code == 403 and not _denies_content(call, status):
        return _forbidden(call, status, message)
    if code == 404 and status.resource == "nodes":
        return NodeMissing(call.access.api_server, node=call.node)
    return _rejected(call, code, reason)


def quotable(text: str, token: str | None) -> str:
    """Returns the text in printable form and of limited length, so that a message can quote it.

    If the text contains the token, returns only the text's length.
    """
    if token and token in text:
        return f"(a text with the token, {length_text(text)})"
    text = printable(text.strip())
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"


def _user_in(status: Status) -> str:
    """The user in an authorizer's message; "" if the message is not from an authorizer."""
    match = _BY_AUTHORIZER.search(status.message)
    return match[1] if match else ""


def _denies_content(call: Call, status: Status) -> bool:
    """Whether a 403 denies the content of the request, and not the right to send it."""
    sends_content = call.is_write or call.resource == "events"
    return sends_content and not _user_in(status) and not _OTHER_NODE.search(status.message)


def _rejected(call: Call, code: int, why: str) -> NodeRejected:
    """The error for a request whose content was denied. why: the API server's reason; "" if unknown."""
    message = f"{call.access.api_server} refused to {call.verb} {call.resource} (HTTP {code})"
    return NodeRejected(f"{message}{_after_colon(why)}", reason=why)


def _unavailable(call: Call, error: HttpError, why: str) -> NodeUnreachable:
    message = f"{call.access.api_server} is unavailable (HTTP {error.status}){_after_colon(why)}"
    if error.status >= 500 and call.is_write:
        message += ". Until a write succeeds, the Node's condition may be out of date"
        if error.status == 504:
            message += ". Does an admission webhook not answer?"
    # An API server sends seconds, never a date.
    seconds = re.fullmatch(r"\s*([0-9]{1,9})\s*", error.retry_after, re.ASCII)
    return NodeUnreachable(message, retry_after=float(seconds[1]) if seconds else 0.0)


def _wrong_credentials(access: ClusterAccess) -> NodeUnauthorized:
    # "The same file" is the kubeconfig that api_server names.
    message = f"{access.api_server} rejected the credentials in the same file (HTTP 401)"
    return NodeUnauthorized(f"{message}: {credentials_advice(access)}")


def _not_recognised(access: ClusterAccess) -> NodeUnauthorized:
    """The error for a request that arrived without credentials. For wrong credentials, the response is HTTP 401."""
    return NodeUnauthorized(
        f"{access.api_server} treated the request as {_ANONYMOUS} (HTTP 403). Has its user a token or a client "
        "certificate? Does a proxy or a load balancer on the way end TLS, and so remove the client certificate?"
    )


def _forbidden(call: Call, status: Status, message: str) -> NodeForbidden:
    user = quotable(_user_in(status), call.access.token)
    who = f'the identity "{user}"' if user else f"the identity in {call.access.kubeconfig}"
    node = f'Node "{call.node}"' if call.node else "nodes"
    what = {"nodes": node, "nodes/status": f"nodes/status of {node}"}.get(call.resource, call.resource)
    return NodeForbidden(
        f"{who} may not {call.verb} {what} (HTTP 403): {_rights_advice(call, status)}. The API server's message: "
        f"{message}"
    )


def _rights_advice(call: Call, status: Status) -> str:
    """How to get the right to send the request, or why that is impossible."""
    impersonated, user = call.access.impersonated, _user_in(status)
    if impersonated and "impersonate" in status.message:
        return (
            f'the kubeconfig lets it act as "{impersonated}" (as). This needs Kubernetes 1.36 or later, the '
            "roles in identity-own-node.yaml, and a token that is bound to this Node. With an older Kubernetes, use "
            'identity.yaml, and remove "as"'
        )
    is_other_kubelet = user.startswith(KUBELET_PREFIX) and user != f"{KUBELET_PREFIX}{call.node}"
    if is_other_kubelet or _OTHER_NODE.search(status.message):
        return "a kubelet's identity has access to its own Node only"
    namespace = ' in the namespace "default"' if call.resource == "events" else ""
    return f'it needs a role with the verb "{call.verb}" on "{call.resource}"{namespace}'


def _no_api_server(call: Call, code: int) -> NodeUnreachable:
    return NodeUnreachable(
        f"the server in {call.access.kubeconfig} is not an API server (HTTP {code} for {call.verb} {call.resource}). "
        "Is its address right, or does a proxy or a firewall on the way refuse the request?"
    )


def _after_colon(text: str) -> str:
    return f": {text}" if text else ""

"""Parses a response with a status other than 2xx, which may contain Kubernetes' Status object."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from capacityd.model.quoting import length_text
from capacityd.model.text import printable
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.identity import KUBELET_PREFIX, is_kubelet_of

_OTHER_NODE = re.compile(r'node "[^"]*" is not allowed to modify node "')
"""The message of the admission plugin NodeRestriction if a kubelet writes another Node.

Source: admitNode in k8s.io/kubernetes, plugin/pkg/admission/noderestriction/admission.go."""
_NOT_READY = "is forbidden: not yet ready to handle request"
"""The end of an admission plugin's message while the API server starts. The HTTP status is 403, like that of a denial.

Source: Dispatch in k8s.io/apiserver, pkg/admission/plugin/policy/generic/plugin.go."""
_FORBIDDEN_USER = re.compile(r'User "([^"]+)" cannot ')
"""The user's name in an authorizer's message.

Source: forbiddenMessage in k8s.io/apiserver, pkg/endpoints/handlers/responsewriters/errors.go."""
_DENIED_BY_ADMISSION = re.compile(r"""admission webhook ".*" denied the request|[Pp]olicy ['"].*['"] denied request""")
"""The message of an admission webhook or policy that denied the request. The HTTP status does not show this: webhooks
may choose any status from 400 on, and policies one of three.

Source: ToStatusErr in k8s.io/apiserver, pkg/admission/plugin/webhook/errors/statuserror.go;
pkg/admission/plugin/policy/validating/dispatcher.go and generic/policy_dispatcher.go."""

_MAX_QUOTED = 300
"""The maximum length of a quoted text, in characters."""


class HttpError(Exception):
    """A response with a status other than 2xx, before from_http_status() explains it."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def retry_after(self) -> float:
        """The server's Retry-After in seconds; 0.0 if there is none. The server never sends a date."""
        for name, value in self.headers.items():
            if name.lower() == "retry-after" and re.fullmatch(r"[0-9]{1,9}", value.strip(), re.ASCII):
                return float(value)
        return 0.0


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the API server, with the details that error messages use."""

    access: ClusterAccess
    verb: str
    """The verb's name in a role, e.g. "patch"."""
    resource: str
    """The resource's name in a role, e.g. "nodes/status"."""
    node: str = ""
    """The name of the Node; "" if the request is not about a single Node."""
    user: str = ""
    """Our user name according to the API server; "" if unknown."""

    @property
    def is_write(self) -> bool:
        """Whether the request writes the Node."""
        return self.resource == "nodes/status"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A response with a status other than 2xx, and the request."""

    call: Call
    error: HttpError
    is_status: bool = False
    """Whether the response contains a Status object. The next fields are its content."""
    message: str = ""
    causes: tuple[str, ...] = ()
    resource: str = ""
    """The plural name of the requested resource, e.g. "nodes"."""
    denied_by_admission: bool = False
    """Whether an admission webhook or policy has denied the request."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.error.status

    @property
    def reason(self) -> str:
        """The causes of a validation error or, if there are none, the API server's message."""
        return quotable("; ".join(self.causes) or self.message, token=None)

    @property
    def is_from_starting_server(self) -> bool:
        """Whether the API server denied the request only because it is starting."""
        return self.status == 403 and self.message.endswith(_NOT_READY)

    @property
    def is_from_intermediary(self) -> bool:
        """Whether the response comes from a proxy, load balancer or firewall on the way, not from an API server.

        False for an empty body, which does not show who has responded.
        """
        return not self.is_status and bool(self.error.body.strip())

    @property
    def user(self) -> str:
        """The user name of the request; "" if it is unknown."""
        if self.call.user:
            return self.call.user
        match = _FORBIDDEN_USER.search(self.message)
        return match[1] if match else ""

    @property
    def denies_impersonation(self) -> bool:
        """Whether the credentials may not act as the user that the kubeconfig names."""
        return bool(self.call.access.impersonated) and "impersonate" in self.message

    @property
    def is_to_other_kubelet(self) -> bool:
        """Whether the credentials belong to another Node's kubelet, according to the user or to the response's message.

        The user may be outdated, because another Node's token may have replaced ours since the review. Before
        Kubernetes 1.32, another kubelet's token can read our Node. NodeRestriction denies only the write.
        """
        if self.user.startswith(KUBELET_PREFIX) and not is_kubelet_of(self.user, self.call.node):
            return True
        return _OTHER_NODE.search(self.message) is not None

    @property
    def denies_any_content(self) -> bool:
        """Whether the API server denied the request whatever its content, as the authorizer does.

        Admission plugins deny the content of a write. But NodeRestriction denies every write of another kubelet's Node.
        """
        if self.status != 403 or self.is_from_intermediary:
            return False
        if not self.call.is_write:  # there is no content that could be wrong
            return True
        if not self.is_status:  # without a message, nothing shows that the content was denied
            return True
        is_by_authorizer = _FORBIDDEN_USER.search(self.message) is not None
        return is_by_authorizer or self.is_to_other_kubelet or self.denies_impersonation


def refusal_of(call: Call, error: HttpError) -> Refusal:
    """Parses the body of a response. Texts with the request's bearer token are left out."""
    try:
        document = json.loads(error.body)
    except (ValueError, RecursionError):
        return Refusal(call, error)
    if not isinstance(document, dict) or document.get("kind") != "Status":
        return Refusal(call, error)
    details = document.get("details")
    if not isinstance(details, dict):
        details = {}
    causes = details.get("causes")
    if not isinstance(causes, list):
        causes = []
    token = call.access.token
    texts = [quotable(_cause(cause), token) for cause in causes if isinstance(cause, dict)]
    message = str(document.get("message") or "")
    return Refusal(
        call,
        error,
        is_status=True,
        message=quotable(message, token),
        causes=tuple(dict.fromkeys(texts)),  # several checks of a Node may report the same cause
        resource=str(details.get("kind") or ""),  # despite its name, the plural name of the resource
        denied_by_admission=_DENIED_BY_ADMISSION.search(message) is not None,
    )


def _cause(cause: Mapping[str, object]) -> str:
    """Names the field, and says what is wrong with it."""
    return ": ".join(str(cause[key]) for key in ("field", "message") if cause.get(key))


def quotable(text: str, token: str | None) -> str:
    """Returns the text in printable form and of limited length, so that a message can quote it.

    Instead of a text that contains the token, returns only its length.
    """
    if token and token in text:
        return f"(a text with the token, {length_text(text)})"
    text = printable(text.strip())
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"

"""A request to the API server, and its response with a status other than 2xx."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.documents.status import StatusDetails, quotable
from capacityd.node.identity import KUBELET_PREFIX, is_kubelet_of

_OTHER_NODE = re.compile(r'node "[^"]*" is not allowed to modify node "')
"""The message of the admission plugin NodeRestriction to the kubelet of another Node.

Source: admitNode in k8s.io/kubernetes, plugin/pkg/admission/noderestriction/admission.go."""
_NOT_READY = "is forbidden: not yet ready to handle request"
"""The end of an admission plugin's message while the API server starts. The HTTP status is 403, as for a denial.

Source: Dispatch in k8s.io/apiserver, pkg/admission/plugin/policy/generic/plugin.go."""
_FORBIDDEN_USER = re.compile(r'User "([^"]+)" cannot ')
"""The user's name in an authorizer's message.

Source: forbiddenMessage in k8s.io/apiserver, pkg/endpoints/handlers/responsewriters/errors.go."""


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
    """The verb as in a role, e.g. "patch"."""
    resource: str
    """The resource as in a role, e.g. "nodes/status"."""
    node: str = ""
    """The name of the Node; "" if the request is not about a single one."""
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
    details: StatusDetails

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.error.status

    @property
    def reason(self) -> str:
        """The causes of a validation error or, if there are none, the API server's message."""
        return quotable("; ".join(self.details.causes) or self.details.message, token=None)

    @property
    def is_from_starting_server(self) -> bool:
        """Whether the API server denied the request only because it is starting."""
        return self.status == 403 and self.details.message.endswith(_NOT_READY)

    @property
    def is_from_intermediary(self) -> bool:
        """Whether the body is not an API server's: a proxy, load balancer or firewall on the way has responded.

        An empty body does not show who has responded.
        """
        return not self.details.is_status and bool(self.error.body.strip())

    @property
    def user(self) -> str:
        """The user name of the request; "" if it is unknown."""
        if self.call.user:
            return self.call.user
        match = _FORBIDDEN_USER.search(self.details.message)
        return match[1] if match else ""

    @property
    def denies_impersonation(self) -> bool:
        """Whether the credentials may not act as the user that the kubeconfig names."""
        return bool(self.call.access.impersonated) and "impersonate" in self.details.message

    @property
    def is_to_other_kubelet(self) -> bool:
        """Whether the credentials belong to another Node's kubelet, judged by the user or by the API server's message.

        The token may have been replaced with another Node's since we asked for the user. Before Kubernetes 1.32, such a
        token can read our Node, so only NodeRestriction denies the write.
        """
        if self.user.startswith(KUBELET_PREFIX) and not is_kubelet_of(self.user, self.call.node):
            return True
        return _OTHER_NODE.search(self.details.message) is not None

    @property
    def denies_any_content(self) -> bool:
        """Whether the API server denied the request whatever its content, as the authorizer does.

        An admission plugin denies the content of a write, except NodeRestriction: it denies every write of a Node that
        is not the kubelet's own.
        """
        if self.status != 403 or self.is_from_intermediary:
            return False
        if not self.call.is_write:  # there is no content that could be wrong
            return True
        if not self.details.is_status:  # there is no message to judge by
            return True
        is_by_authorizer = _FORBIDDEN_USER.search(self.details.message) is not None
        return is_by_authorizer or self.is_to_other_kubelet or self.denies_impersonation

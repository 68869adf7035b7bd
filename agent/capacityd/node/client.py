"""Sends requests to an API server through the `kubernetes` library (versions 12 to 37).

All requests go through the library's RESTClientObject, whose connections connection.py wraps. The library's API classes
are not used, because they import 700 models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from capacityd.model.errors import CapacitydError, NodeUnreachable
from capacityd.model.modules import import_failure
from capacityd.model.node import NodeState, Patch
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.connection import USER_AGENT, HttpError, Pool
from capacityd.node.documents.fields import InvalidDocument
from capacityd.node.documents.node import named_node, reviewed_user
from capacityd.node.documents.patch import patch_document, require_guard
from capacityd.node.errors import Call, from_http_status
from capacityd.node.proxy import proxy_headers
from capacityd.node.transport_errors import from_transport_error

T = TypeVar("T")

_TIMEOUTS = (5.0, 12.0)
"""Seconds to connect, and seconds to wait for each part of a response. The name resolution and the whole response may
take longer. The service ends a worker that takes too long."""
_PATCH_TIMEOUTS = (5.0, 30.0)
"""The same timeouts for a PATCH. The API server responds only after all admission webhooks have answered or timed out.
By default, each webhook has 10 s. Mutating webhooks are called one after the other."""
_MAX_RESPONSE_BYTES = 4 << 20
"""Enough for a Node. etcd stores Nodes of up to 1.5 MiB, in an encoding that is shorter than JSON."""
_FIELD_MANAGER = "capacityd"
_MERGE_PATCH = "application/strategic-merge-patch+json"


class Client:
    """Sends capacityd's requests. A request that fails raises a NodeError."""

    def __init__(self, access: ClusterAccess, max_response_bytes: int = _MAX_RESPONSE_BYTES) -> None:
        self.access = access
        with _no_library_error(access):
            self._rest = _rest_client(access)
            self._rest.pool_manager = Pool(self._rest.pool_manager, access, max_response_bytes)

    def read_node(self, name: str) -> NodeState:
        """Reads a Node."""
        call = Call(self.access, "get", "nodes", node=name)
        return self._request(call, "GET", _node_path(name), partial(named_node, name=name))

    def patch_node_status(self, name: str, patch: Patch) -> NodeState:
        """Patches a Node and its status, and returns the patched Node."""
        require_guard(patch)
        call = Call(self.access, "patch", "nodes/status", node=name)
        path = f"{_node_path(name)}/status?fieldManager={_FIELD_MANAGER}"
        parse = partial(named_node, name=name, uid=patch.uid)
        return self._request(call, "PATCH", path, parse, body=patch_document(patch))

    def create_event(self, node: str, event: Mapping[str, object]) -> None:
        """Creates an Event in the namespace `default`, where Events about Nodes belong."""
        call = Call(self.access, "create", "events", node=node)
        self._request(call, "POST", "/api/v1/namespaces/default/events", lambda _: None, body=event)

    def review_self(self) -> tuple[str, str]:
        """Sends a SelfSubjectReview. Returns the user's name, and the Node that the user's token is bound to, or "".

        Raises NodeForbidden if the server does not allow the review, for example just after the server's start.
        """
        group, resource = "authentication.k8s.io/v1", "selfsubjectreviews"
        body = {"apiVersion": group, "kind": "SelfSubjectReview"}
        call = Call(self.access, "create", resource)
        return self._request(call, "POST", f"/apis/{group}/{resource}", reviewed_user, body=body)

    def get(
        self,
        resource: str,
        path: str,
        query: Mapping[str, str],
        parse: Callable[[Any], T],
        absent_on: Collection[int] = (),
    ) -> T:
        """Requests a list, and returns the result of parse().

        resource: the resource's name in a role, for messages. query: the parameters of the URL. parse: converts the
        response's JSON. absent_on: HTTP statuses that are not errors. For these, parse() gets None.
        """
        url = f"{path}?{urlencode(query)}" if query else path
        return self._request(Call(self.access, "list", resource), "GET", url, parse, absent_on=absent_on)

    def _request(  # noqa: PLR0913  # the parts of a request
        self,
        call: Call,
        method: str,
        path: str,
        parse: Callable[[Any], T],
        *,
        body: Mapping[str, object] | None = None,
        absent_on: Collection[int] = (),
    ) -> T:
        """Sends a request, and returns the result of parse().

        path: the URL's path and query. parse: converts the response's JSON. body: the JSON to send, if any.
        absent_on: HTTP statuses that are not errors. For these, parse() gets None.
        """
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT, **self.access.headers}
        if body is not None:
            headers["Content-Type"] = _MERGE_PATCH if method == "PATCH" else "application/json"
        timeouts = _PATCH_TIMEOUTS if method == "PATCH" else _TIMEOUTS
        url = f"{self.access.server}{path}"
        try:
            with _no_library_error(self.access):
                response = self._rest.request(method, url, headers=headers, body=body, _request_timeout=timeouts)
                # From version 37 on, the library does not read the body by itself.
                content = response.read() if response.data is None else response.data
        except HttpError as e:
            if e.status not in absent_on:
                raise from_http_status(e, call) from None
            content = b"null"  # parse() gets None
        try:
            return parse(json.loads(content))
        except InvalidDocument as e:
            problem = str(e)
        except (ValueError, RecursionError):
            problem = "it is not JSON, or is incomplete"
        server = self.access.api_server
        raise NodeUnreachable(f"{server} sent a response that cannot be used ({call.verb} {call.resource}): {problem}")


@contextmanager
def _no_library_error(access: ClusterAccess) -> Iterator[None]:
    """Replaces every exception of a library with a NodeError."""
    try:
        yield
    except (CapacitydError, HttpError):
        raise
    except Exception as e:  # noqa: BLE001  # libraries also raise undocumented exceptions
        # "from None" keeps the library's message out of tracebacks, because it may contain a secret.
        raise import_failure(e) or from_transport_error(e, access) from None


def _node_path(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


def import_library() -> None:
    """Imports the kubernetes library, which takes longer than a request."""
    from kubernetes import client  # noqa: F401


def _rest_client(access: ClusterAccess) -> Any:
    """Returns a RESTClientObject of the library, whose interface is the same in all versions."""
    from kubernetes import client

    configuration = client.Configuration()
    configuration.host = access.server
    configuration.verify_ssl = access.verify
    # Also set without a proxy, because newer versions would otherwise take a proxy from environment variables.
    configuration.proxy = access.proxy
    configuration.no_proxy = ""
    configuration.proxy_headers = proxy_headers(access.proxy)
    return client.ApiClient(configuration).rest_client

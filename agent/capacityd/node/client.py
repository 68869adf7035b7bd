"""Sends our requests through the `kubernetes` client (versions 12 to 37), to one server with one set of credentials.

All requests go through the library's RESTClientObject, which manages the pool of connections. connection.py wraps the
pool, and adds what the library lacks. The library's classes for each API are not used, because they load 700 models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from capacityd.model.errors import NodeError
from capacityd.model.node import NodeState, Patch
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.connection import USER_AGENT, Pool, ResponseTooLarge
from capacityd.node.deadline import run_within
from capacityd.node.documents.node import named_node, reviewed_user
from capacityd.node.documents.patch import patch_document, require_guard
from capacityd.node.errors import from_http_status, from_invalid_content, no_library_error, unexpected_response
from capacityd.node.proxy import proxy_headers
from capacityd.node.refusal import Call, HttpError
from capacityd.node.transport_errors import from_transport_error

T = TypeVar("T")

REQUEST_TIMEOUT = 30.0
"""Seconds for a whole request: name resolution, connection, TLS handshake, request and response."""
_TIMEOUTS = (5.0, 12.0)
"""Seconds to connect, and seconds between two parts of a response."""
_PATCH_TIMEOUTS = (5.0, REQUEST_TIMEOUT)
"""The two timeouts for a PATCH. The API server responds only after all admission webhooks have answered or timed out.
The default timeout is 10 s for each webhook, and mutating webhooks are called one after the other."""
_MAX_RESPONSE_BYTES = 4 << 20
"""The limit for a Node. etcd stores Nodes of up to 1.5 MiB, in a shorter encoding than JSON."""
_FIELD_MANAGER = "capacityd"
_MERGE_PATCH = "application/strategic-merge-patch+json"


class Client:
    """The requests that capacityd sends. Each raises a NodeError that says what went wrong."""

    def __init__(
        self, access: ClusterAccess, max_response_bytes: int = _MAX_RESPONSE_BYTES, timeout: float | None = None
    ) -> None:
        """max_response_bytes: limit of each response. timeout: seconds for each request; None: REQUEST_TIMEOUT."""
        self.access = access
        self._timeout = REQUEST_TIMEOUT if timeout is None else timeout
        self.user = ""
        """Our user name according to the API server; "" until it is known."""
        with no_library_error(lambda e: from_transport_error(e, access)):
            self._rest = _rest_client(access)
            self._pool = Pool(self._rest.pool_manager, access, max_response_bytes=max_response_bytes)
            self._rest.pool_manager = self._pool

    def read_node(self, name: str) -> NodeState:
        """Returns the Node."""
        parse = partial(named_node, name=name)
        return self._request(self._call("get", "nodes", node=name), "GET", _node_path(name), parse)

    def patch_node_status(self, name: str, patch: Patch) -> NodeState:
        """Patches the Node and its status, and returns the patched Node."""
        require_guard(patch)
        call = self._call("patch", "nodes/status", node=name)
        path = f"{_node_path(name)}/status?fieldManager={_FIELD_MANAGER}"
        body = patch_document(patch)
        parse = partial(named_node, name=name, uid=patch.uid)
        return self._request(call, "PATCH", path, parse, body=body, content_type=_MERGE_PATCH)

    def create_event(self, node: str, event: Mapping[str, object]) -> None:
        """Creates an Event in the namespace `default`, where Events about Nodes belong."""
        call = self._call("create", "events", node=node)
        self._request(call, "POST", "/api/v1/namespaces/default/events", lambda _: None, body=event)

    def review_self(self) -> tuple[str, str]:
        """Returns our user name and the Node that the user's token is bound to (SelfSubjectReview); "" for no Node.

        Raises NodeForbidden if the server does not allow the review, for example just after the server's start.
        """
        group, version, resource = "authentication.k8s.io", "v1", "selfsubjectreviews"
        body = {"apiVersion": f"{group}/{version}", "kind": "SelfSubjectReview"}
        path = f"/apis/{group}/{version}/{resource}"
        return self._request(self._call("create", resource), "POST", path, reviewed_user, body=body)

    def get(
        self,
        resource: str,
        path: str,
        query: Mapping[str, str],
        parse: Callable[[Any], T],
        absent_on: Collection[int] = (),
    ) -> T:
        """Returns the parsed list at a path of the API server.

        resource: the resource's name in a role, for messages. query: the parameters of the URL. parse: a function that
        takes the response's JSON. absent_on: HTTP statuses that are no error; parse() then takes None.
        """
        url = f"{path}?{urlencode(query)}" if query else path
        return self._request(self._call("list", resource), "GET", url, parse, absent_on=absent_on)

    def _call(self, verb: str, resource: str, node: str = "") -> Call:
        """Describes a request for messages. verb, resource: their names in a role. node: the Node's name, if any."""
        return Call(self.access, verb=verb, resource=resource, node=node, user=self.user)

    def _request(  # noqa: PLR0913  # the parts of a request
        self,
        call: Call,
        method: str,
        path: str,
        parse: Callable[[Any], T],
        *,
        body: Mapping[str, object] | None = None,
        content_type: str = "application/json",
        absent_on: Collection[int] = (),
    ) -> T:
        """Sends a request, and returns the parsed response.

        path: the URL's path and query. body: the JSON to send; None: no body. parse, absent_on: as for get().
        """

        def explain(e: Exception) -> NodeError:
            if isinstance(e, HttpError):
                return from_http_status(e, call)
            if isinstance(e, ResponseTooLarge):
                return unexpected_response(call, f"more than {self._pool.max_response_bytes} bytes")
            if isinstance(e, UnicodeDecodeError):  # up to version 36, the library decodes the body of a response
                return unexpected_response(call, "it is not text")
            return from_transport_error(e, self.access)

        headers = {"Accept": "application/json", "User-Agent": USER_AGENT, **self.access.headers}
        if body is not None:
            headers["Content-Type"] = content_type
        request = partial(
            self._rest.request,
            method,
            f"{self.access.server}{path}",
            headers=headers,
            body=body,
            _request_timeout=_PATCH_TIMEOUTS if method == "PATCH" else _TIMEOUTS,
        )
        with no_library_error(explain):
            try:
                response = run_within(self._timeout, request)
                # From version 37 on, the library does not read the body by itself.
                content = response.read() if response.data is None else response.data
            except HttpError as e:
                if e.status not in absent_on:
                    raise
                content = b"null"  # so that parse() takes None
        with no_library_error(lambda e: from_invalid_content(e, call, subject="it")):
            return parse(json.loads(content))


def _node_path(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


def import_library() -> None:
    """Imports the library. This takes longer than a request."""
    from kubernetes import client  # noqa: F401


def _rest_client(access: ClusterAccess) -> Any:
    """Returns the library's RESTClientObject for this server. Its interface is the same in all versions."""
    from kubernetes import client

    configuration = client.Configuration()
    configuration.host = access.server
    configuration.verify_ssl = access.verify
    # Set even if empty, because newer versions would otherwise use the proxy that environment variables name.
    configuration.proxy = access.proxy
    configuration.no_proxy = ""
    configuration.proxy_headers = proxy_headers(access.proxy)
    return client.ApiClient(configuration).rest_client

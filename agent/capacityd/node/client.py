"""Sends our requests through the `kubernetes` client (versions 12 to 37), to one server with one set of credentials.

The library builds URLs and headers, and manages the pool of connections. Our wrapper of the pool adds what the library
lacks.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from http.client import IncompleteRead
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from capacityd.model.errors import NodeError
from capacityd.model.node import NodeState
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.connection import USER_AGENT, VerifiedPool
from capacityd.node.deadline import run_within
from capacityd.node.documents.encoding import go_json
from capacityd.node.documents.node import node_state, reviewed_user
from capacityd.node.errors import from_invalid_content, no_library_error, unexpected_response
from capacityd.node.proxy import proxy_headers
from capacityd.node.refusal import Call, HttpError
from capacityd.node.transport_errors import from_request_error, from_transport_error

T = TypeVar("T")

REQUEST_TIMEOUT = 30.0
"""Seconds for a whole request: name resolution, connection, TLS handshake, request and response."""
_TIMEOUTS = (5.0, 12.0)
"""Seconds to connect, and seconds between two parts of a response."""
_PATCH_TIMEOUTS = (5.0, REQUEST_TIMEOUT)
"""The same for a PATCH. Before it responds, the API server waits for admission webhooks: by default 10 s for each, and
for mutating ones in turn. With failurePolicy Ignore, the PATCH succeeds then. Otherwise the error names the webhook."""
_MAX_RESPONSE_BYTES = 4 << 20
"""For a Node. etcd stores Nodes of up to 1.5 MiB, in a shorter encoding than JSON."""
_FIELD_MANAGER = "capacityd"
_API_MISSING = (404, 405)
"""HTTP statuses if the server does not have the API of a request."""


class Client:
    """The requests that capacityd sends. Each raises a NodeError that says what went wrong."""

    def __init__(
        self, access: ClusterAccess, max_response_bytes: int = _MAX_RESPONSE_BYTES, timeout: float | None = None
    ) -> None:
        """max_response_bytes, timeout: limits of each request, in bytes and seconds. None: REQUEST_TIMEOUT."""
        self.access = access
        self._timeout = REQUEST_TIMEOUT if timeout is None else timeout
        self.user = ""
        """Our user name according to the API server; "" until it is known."""
        with no_library_error(lambda e: from_transport_error(e, access)):
            from kubernetes import client

            api = _api_client(access)
            self._headers = {"Accept": "application/json", **api.default_headers}
            self._pool = _Pool(api.rest_client.pool_manager, access, max_response_bytes=max_response_bytes)
            api.rest_client.pool_manager = self._pool
            self._core: Any = client.CoreV1Api(api)
            # For SelfSubjectReviews, too: versions of the library before 28 have no method of their own for these.
            self._custom: Any = client.CustomObjectsApi(api)

    def read_node(self, name: str) -> NodeState:
        """Returns the Node."""
        return self._send(self._call("get", "nodes", node=name), partial(self._core.read_node, name), parse=node_state)

    def get(
        self,
        resource: str,
        path: str,
        query: Mapping[str, str],
        parse: Callable[[Any], T],
        absent_on: Collection[int] = (),
    ) -> T:
        """Returns the parsed list at a path of the API server.

        resource: as in a role, for messages. query: the parameters of the URL. parse: takes the response's JSON.
        absent_on: HTTP statuses that are no error. For a response with such a status, parse() takes None.
        """
        url = f"{self.access.server}{path}?{urlencode(query)}"
        method = partial(self._pool.get, url, headers=self._headers)
        return self._send(self._call("list", resource), method, parse=parse, absent_on=absent_on)

    def patch_node_status(self, name: str, patch: Sequence[Mapping[str, object]]) -> NodeState:
        """Applies a JSON Patch and returns the patched Node."""
        # The library sends a list of dicts as a JSON Patch, and anything else as another kind of patch.
        operations = [dict(operation) for operation in patch]
        method = partial(self._core.patch_node_status, name, operations, field_manager=_FIELD_MANAGER)
        return self._send(self._call("patch", "nodes/status", node=name), method, parse=node_state)

    def create_event(self, node: str, event: Mapping[str, object]) -> None:
        """Creates an Event in the namespace `default`, where Events about Nodes belong."""
        method = partial(self._core.create_namespaced_event, "default", dict(event))
        self._send(self._call("create", "events", node=node), method, parse=lambda _: None)

    def review_self(self) -> tuple[str, str]:
        """Returns our user name and the Node that the user's token is bound to (SelfSubjectReview).

        Each is "" if the server does not report it. Raises NodeForbidden if the server does not allow the review. By
        default it does, except shortly after its start.
        """
        group, version, resource = "authentication.k8s.io", "v1", "selfsubjectreviews"
        body = {"apiVersion": f"{group}/{version}", "kind": "SelfSubjectReview"}
        method = partial(self._custom.create_cluster_custom_object, group, version, resource, body)
        # Servers before Kubernetes 1.28 lack this API.
        return self._send(self._call("create", resource), method, parse=reviewed_user, absent_on=_API_MISSING)

    def _call(self, verb: str, resource: str, node: str = "") -> Call:
        """Describes a request for messages. verb, resource: as in a role. node: the name of a single Node."""
        return Call(self.access, verb=verb, resource=resource, node=node, user=self.user)

    def _send(
        self,
        call: Call,
        method: Callable[..., Any],
        parse: Callable[[Any], T],
        absent_on: Collection[int] = (),
    ) -> T:
        """Returns the parsed response. method: the library's, with its arguments. parse: takes the response's JSON.

        absent_on: HTTP statuses that are no error. For a response with such a status, parse() takes None.
        """

        def explain(e: Exception) -> NodeError:
            if isinstance(e, _ResponseTooLarge):
                return unexpected_response(call, f"more than {self._pool.max_response_bytes} bytes")
            return from_request_error(e, call)

        # The library's models reject valid Nodes, differently in each version, so we parse the JSON ourselves.
        timeouts = _PATCH_TIMEOUTS if call.verb == "patch" else _TIMEOUTS
        request = partial(method, _preload_content=False, _request_timeout=timeouts)
        with no_library_error(explain):
            try:
                body = run_within(self._timeout, request).data
            except HttpError as e:
                if e.status not in absent_on:
                    raise
                body = b"null"  # so that parse() takes None
        # "it" is the response, which the message names before.
        with no_library_error(lambda e: from_invalid_content(e, call, subject="it")):
            return parse(json.loads(body))


def _api_client(access: ClusterAccess) -> Any:
    """The library's client for this server, with the token."""
    from kubernetes import client

    configuration = client.Configuration()
    configuration.host = access.server
    configuration.verify_ssl = access.verify
    # Set even if empty: otherwise, newer versions would use the environment's proxy, unlike older ones.
    configuration.proxy = access.proxy
    configuration.no_proxy = ""
    configuration.proxy_headers = proxy_headers(access.proxy)
    api = client.ApiClient(configuration)
    api.user_agent = USER_AGENT
    for name, value in access.headers.items():  # the token's key in Configuration depends on the version
        api.set_default_header(name, value)
    return api


class _ResponseTooLarge(Exception):
    """A response that is larger than any expected one."""


class _Response(NamedTuple):
    """The attributes of a response that the library's versions use."""

    status: int
    reason: str
    headers: Mapping[str, str]
    data: bytes


class _Pool:
    """Wraps the library's urllib3 pool. Every request of every version of the library goes through request()."""

    def __init__(self, pool: Any, access: ClusterAccess, max_response_bytes: int) -> None:
        # Our own TLS contexts. The library accepts certificates and keys only as files, which stay in /tmp if the
        # process is killed.
        self._verified = VerifiedPool(pool, access)
        self.max_response_bytes = max_response_bytes
        self._pool = pool
        weakref.finalize(self, pool.clear)  # urllib3 1.26 does not close its sockets by itself

    def request(self, method: str, url: str, **options: Any) -> _Response:
        """Sends one request. Raises HttpError for any status but 2xx, _ResponseTooLarge, and urllib3's errors."""
        body = options.get("body")
        if isinstance(body, str):  # None for a GET
            # Encoded again, as Go does: the API server compares values in a JSON Patch byte for byte (go_json()).
            options["body"] = go_json(json.loads(body)).encode()
        response = self._verified.request(method, url, **options)
        try:
            # The library itself would read a response of any size.
            data = response.read(self.max_response_bytes + 1, decode_content=False)
            if len(data) > self.max_response_bytes:
                raise _ResponseTooLarge
            if response.length_remaining:  # urllib3 does not check this, and would reuse the dead connection
                raise IncompleteRead(data, response.length_remaining)
            # Reuse the connection: the next request follows within milliseconds, and a TLS handshake costs more than a
            # GET. urllib3 replaces a broken connection.
            response.release_conn()
        finally:
            response.close()  # does nothing after release_conn()
        if not 200 <= response.status <= 299:
            # Raised here: the library's exceptions depend on its version, and none keeps a body that is not UTF-8.
            raise HttpError(response.status, headers=dict(response.headers), body=data)
        return _Response(response.status, reason=response.reason, headers=response.headers, data=data)

    def get(self, url: str, headers: Mapping[str, str], _preload_content: Any, _request_timeout: Any) -> _Response:
        """Sends a GET. _preload_content, _request_timeout: as the library's methods take them."""
        from urllib3 import Timeout

        connect, read = _request_timeout
        timeout = Timeout(connect=connect, read=read)
        return self.request("GET", url, headers=headers, preload_content=_preload_content, timeout=timeout)

    def clear(self) -> None:
        """Closes all connections. For the library: version 37 calls clear() when its client is closed."""
        self._pool.clear()

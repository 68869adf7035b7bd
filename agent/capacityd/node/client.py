"""Sends our requests through the `kubernetes` client (versions 12 to 37), to one server with one set of credentials.

All requests go through the library's RESTClientObject, which manages the pool of connections. connection.py wraps the
pool, and adds what the library lacks. The library's classes for each API are not used, because they load 700 models.
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
"""Seconds to connect, and seconds between two parts of a response. The name resolution has its own limits, and a
response that drips may take any time: the service ends a worker that takes too long, and a person ends a command."""
_PATCH_TIMEOUTS = (5.0, 30.0)
"""The two timeouts for a PATCH. The API server responds only after all admission webhooks have answered or timed out.
The default timeout is 10 s for each webhook, and mutating webhooks are called one after the other."""
_MAX_RESPONSE_BYTES = 4 << 20
"""The limit for a Node. etcd stores Nodes of up to 1.5 MiB, in a shorter encoding than JSON."""
_FIELD_MANAGER = "capacityd"
_MERGE_PATCH = "application/strategic-merge-patch+json"


class Client:
    """The requests that capacityd sends. Each raises a NodeError that says what went wrong."""

    def __init__(self, access: ClusterAccess, max_response_bytes: int = _MAX_RESPONSE_BYTES) -> None:
        """max_response_bytes: limit of each response."""
        self.access = access
        with _no_library_error(access):
            self._rest = _rest_client(access)
            self._rest.pool_manager = Pool(self._rest.pool_manager, access, max_response_bytes)

    def read_node(self, name: str) -> NodeState:
        """Returns the Node."""
        call = Call(self.access, "get", "nodes", node=name)
        return self._request(call, "GET", _node_path(name), partial(named_node, name=name))

    def patch_node_status(self, name: str, patch: Patch) -> NodeState:
        """Patches the Node and its status, and returns the patched Node."""
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
        """Returns our user name and the Node that the user's token is bound to (SelfSubjectReview); "" for no Node.

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
        """Returns the parsed list at a path of the API server.

        resource: the resource's name in a role, for messages. query: the parameters of the URL. parse: a function that
        takes the response's JSON. absent_on: HTTP statuses that are no error; parse() then takes None.
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
        """Sends a request, and returns the parsed response.

        path: the URL's path and query. body: the JSON to send; None: no body. parse, absent_on: as for get().
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
            content = b"null"  # so that parse() takes None
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
    """Replaces every exception of a library with a NodeError. Libraries also raise undocumented exceptions."""
    try:
        yield
    except (CapacitydError, HttpError):
        raise
    except Exception as e:  # noqa: BLE001  # from_transport_error() explains it
        # Not "from e", because a traceback would show the library's message, which may contain a secret.
        raise import_failure(e) or from_transport_error(e, access) from None


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

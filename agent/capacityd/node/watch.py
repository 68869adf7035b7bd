"""Watches one Node on the API server, over one connection that stays open.

The request has no resourceVersion. So each connection begins with the Node as it is, and nothing is missed between two
connections. A Node that does not exist is silence, or a bookmark before any other event.
Source: Semantics for watch, kubernetes.io/docs/reference/using-api/api-concepts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from capacityd.model.codec import parse
from capacityd.model.errors import NodeError, NodeMissing, NodeUnreachable, WatchHeldBack
from capacityd.model.node import NodeState
from capacityd.node.deadline import run_within
from capacityd.node.documents.fields import InvalidDocument
from capacityd.node.documents.node import node_state
from capacityd.node.errors import from_http_status, from_invalid_content, no_library_error, unexpected_response
from capacityd.node.line_stream import MAX_LINE_BYTES, LineStream, LineTooLong, Silence
from capacityd.node.node_requests import NodeRequests
from capacityd.node.refusal import Call, HttpError
from capacityd.node.transport_errors import from_transport_error
from capacityd.node.watch_target import WatchTarget


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds."""

    connect: float = 5.0
    header: float = 10.0
    """From the connection to the response's header."""
    first_event: float = 5.0
    """Until the first event, if the Node exists. An API server sends it at once."""
    idle: float = 130.0
    """Between two events. An API server sends a bookmark each minute; one that hangs keeps its connections open."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The Node does not exist."""


@dataclass(frozen=True, slots=True)
class Alive:
    """The connection works, and the Node has not changed."""


WatchEvent: TypeAlias = NodeState | Missing | Alive


class NodeWatch:
    """Watches the target's Node."""

    def __init__(self, target: WatchTarget, limits: Limits = Limits()) -> None:
        """limits: shorter in tests. Raises NodeUnauthorized if the credentials cannot be used."""
        self.target = target
        self._limits = limits
        self._known_missing = False  # whether the last event, or a GET after it, has shown that no Node exists
        self._watch_call = self._call("watch")
        with no_library_error(self._explain(self._watch_call)):
            self._requests = NodeRequests(target.access, target.node, limits.connect)

    def connect(self) -> Generator[WatchEvent, None, None]:
        """Yields the Node as it is, then each change, over a new connection. Ends if the server ends the connection.

        Raises a NodeError, in particular WatchHeldBack if something on the way to this server holds events back.
        """
        stream = LineStream(self._open)
        try:
            self._wait_for_header(stream)
            yield from self._events(stream)
        finally:
            stream.close()

    def _wait_for_header(self, stream: LineStream) -> None:
        try:
            item = stream.next_item(self._limits.connect + self._limits.header)
        except Silence:
            self._exists()  # raises another error if the server does not respond to a GET either
            raise self._held_back() from None
        if isinstance(item, Exception):
            raise self._explain(self._watch_call)(item)
        # Otherwise, the item says that the response has begun.

    def _events(self, stream: LineStream) -> Iterator[WatchEvent]:
        has_event = False  # whether this connection has shown the Node, or that there is none
        found_by_get = False  # whether a GET has shown that the Node exists, although no event has arrived
        while True:
            try:
                timeout = self._limits.idle if has_event else self._limits.first_event
                line = self._next(stream, timeout)
            except Silence:
                if has_event:
                    self._known_missing = False  # a proxy may have held an event back
                    raise self._unreachable(f"has sent nothing for {self._limits.idle:g} s") from None
                if self._known_missing or not self._exists():
                    self._known_missing = True
                    has_event = True
                    yield Missing()
                elif found_by_get:
                    raise self._held_back() from None
                else:
                    found_by_get = True  # if the Node was created just now, its event is on the way: wait once more
                continue
            if line is None:
                return
            event = self._event(line)
            if isinstance(event, Alive) and not has_event:
                event = Missing()  # a bookmark before any other event: no Node exists
            if not isinstance(event, Alive):
                self._known_missing = isinstance(event, Missing)
            has_event = True
            yield event

    def _next(self, stream: LineStream, timeout: float) -> bytes | None:
        """Returns the next line; None at the end. Raises Silence and NodeError."""
        item = stream.next_item(timeout)
        if isinstance(item, LineTooLong):
            raise unexpected_response(self._watch_call, f"an event has more than {MAX_LINE_BYTES} bytes")
        if isinstance(item, Exception):
            raise self._unreachable("has closed the connection, or sent a damaged response")
        return item

    def _event(self, line: bytes) -> WatchEvent:
        with no_library_error(self._explain_content):
            event = parse(line)
            kind, content = event["type"], event["object"]
            match kind:
                case "ADDED" | "MODIFIED":
                    return self._state(content)
                case "DELETED":
                    self._state(content)  # raises InvalidDocument if it is another Node
                    return Missing()
                case "BOOKMARK":
                    return Alive()
                case "ERROR":
                    raise from_http_status(_error_event(content), self._watch_call)
            raise InvalidDocument("an event is of an unknown type")

    def _state(self, document: object) -> NodeState:
        state = node_state(document)
        if state.name != self.target.node:
            raise InvalidDocument("an event is about another Node", detail=f'it is "{state.name}"')
        return state

    def _explain_content(self, e: Exception) -> NodeError:
        return from_invalid_content(e, self._watch_call, subject="an event")

    def _exists(self) -> bool:
        """Whether the Node exists, by a GET. Raises NodeError."""
        call = self._call("get")
        with no_library_error(self._explain(call)):
            try:
                seconds = self._limits.connect + self._limits.header
                run_within(seconds, partial(self._requests.get, self._limits.header))
            except HttpError as e:
                error = from_http_status(e, call)
                if isinstance(error, NodeMissing):
                    return False
                raise error from None
        return True

    def _open(self) -> Any:
        limits = self._limits
        # The stream's reader applies the limits. This longer one only ends a thread that nobody waits for any more.
        response = self._requests.watch(read_timeout=limits.connect + limits.header + limits.idle)
        if not response.chunked:  # a proxy has collected the whole response before it sent any of it
            response.close()
            raise self._held_back()
        return response

    def _call(self, verb: str) -> Call:
        target = self.target
        return Call(target.access, verb=verb, resource="nodes", node=target.node, user=target.user)

    def _explain(self, call: Call) -> Callable[[Exception], NodeError]:
        def explain(e: Exception) -> NodeError:
            match e:
                case NodeError():
                    return e
                case HttpError():
                    return from_http_status(e, call)
            return from_transport_error(e, call.access)

        return explain

    def _unreachable(self, why: str) -> NodeUnreachable:
        access = self.target.access
        return NodeUnreachable(f"{access.api_server} {why}", detail=access.address)

    def _held_back(self) -> WatchHeldBack:
        access = self.target.access
        return WatchHeldBack(
            f"{access.api_server} responds to a GET of the Node, but not to a watch. Does a proxy or a load balancer "
            "on the way hold responses back (buffering)?",
            detail=access.address,
        )


def _error_event(status: object) -> HttpError:
    """The response that an ERROR event stands for. status: a Kubernetes Status."""
    code = status.get("code") if isinstance(status, dict) else None
    if type(code) is not int or not 400 <= code <= 599:  # type(), because a bool is an int
        code = 500
    return HttpError(code, headers={}, body=json.dumps(status).encode())

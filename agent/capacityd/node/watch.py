"""Watches one Node on the API server, over one connection that stays open.

The request has no resourceVersion. So each connection begins with the Node as it is, and nothing is missed between two
connections. If no Node exists, the API server sends nothing, or a bookmark before any other event.
Source: Semantics for watch, kubernetes.io/docs/reference/using-api/api-concepts.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from capacityd.model.codec import parse
from capacityd.model.errors import NodeMissing, NodeUnreachable, WatchHeldBack
from capacityd.model.node import NodeState
from capacityd.node.deadline import run_within
from capacityd.node.documents.fields import InvalidDocument
from capacityd.node.documents.node import node_state
from capacityd.node.errors import from_http_status, from_invalid_content, no_library_error, unexpected_response
from capacityd.node.line_stream import MAX_LINE_BYTES, LineStream, LineTooLong, Silence
from capacityd.node.node_requests import NodeRequests
from capacityd.node.refusal import Call, HttpError
from capacityd.node.transport_errors import from_request_error
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


class _Event(NamedTuple):
    """An event of a watch."""

    state: NodeState | None
    """None: no Node exists. Also None for a bookmark."""
    is_bookmark: bool = False
    """Whether the event only shows that the connection works."""


class NodeWatch:
    """Watches the target's Node."""

    def __init__(self, target: WatchTarget, limits: Limits = Limits()) -> None:
        """limits: shorter in tests."""
        self.target = target
        self._limits = limits
        self._known_missing = False  # whether the last event or GET has shown that no Node exists
        self._watch_call = self._call("watch")
        self._requests = NodeRequests(target.access, target.node, connect_timeout=limits.connect)

    def connect(self) -> Generator[NodeState | None, None, None]:
        """Yields the Node as it is, then after each change, over a new connection; None if no Node exists.

        Ends if the server ends the connection. Raises a NodeError, in particular WatchHeldBack if something on the way
        to this server holds events back.
        """
        stream = LineStream(self._open)
        try:
            self._wait_for_header(stream)
            yield from self._states(stream)
        finally:
            stream.close()

    def _wait_for_header(self, stream: LineStream) -> None:
        with no_library_error(partial(from_request_error, call=self._watch_call)):
            try:
                stream.wait_for_header(self._limits.connect + self._limits.header)
            except Silence:
                self._send_get()  # raises another error if the server does not respond to a GET either
                raise self._held_back() from None

    def _states(self, stream: LineStream) -> Iterator[NodeState | None]:
        event = self._first_event(stream)
        while event is not None:
            self._known_missing = event.state is None
            yield event.state
            event = self._next_change(stream)

    def _first_event(self, stream: LineStream) -> _Event | None:
        """Returns the event for the Node as it is; None if the connection has ended."""
        for _ in range(2):  # if the Node was created just now, its event is on the way: wait once more
            try:
                return self._next_event(stream, self._limits.first_event)  # a bookmark also says that no Node exists
            except Silence:
                if self._known_missing or not self._send_get():
                    return _Event(state=None)  # no Node exists
        raise self._held_back()

    def _next_change(self, stream: LineStream) -> _Event | None:
        """Returns the next event that is no bookmark; None if the connection has ended."""
        try:
            while True:
                event = self._next_event(stream, self._limits.idle)
                if event is None or not event.is_bookmark:
                    return event
        except Silence:
            self._known_missing = False  # a proxy may have held an event back
            raise self._unreachable(f"has sent nothing for {self._limits.idle:g} s") from None

    def _next_event(self, stream: LineStream, timeout: float) -> _Event | None:
        """Returns the next event; None if the connection has ended. Raises Silence and NodeError."""
        try:
            line = stream.next_line(timeout)
        except Silence:
            raise
        except LineTooLong:
            raise unexpected_response(self._watch_call, f"an event has more than {MAX_LINE_BYTES} bytes") from None
        except Exception:  # noqa: BLE001  # urllib3's and the socket's
            raise self._unreachable("has closed the connection, or sent a damaged response") from None
        return None if line is None else self._event(line)

    def _event(self, line: bytes) -> _Event:
        with no_library_error(partial(from_invalid_content, call=self._watch_call, subject="an event")):
            event = parse(line)  # any exception from here on means that the event has an unexpected form
            kind, content = event["type"], event["object"]
            match kind:
                case "ADDED" | "MODIFIED":
                    return _Event(self._state(content))
                case "DELETED":
                    self._state(content)  # raises InvalidDocument if the event is about another Node
                    return _Event(state=None)
                case "BOOKMARK":
                    return _Event(state=None, is_bookmark=True)
                case "ERROR":
                    raise from_http_status(_http_error(content), self._watch_call)
            raise InvalidDocument("an event is of an unknown type")

    def _state(self, document: object) -> NodeState:
        state = node_state(document)
        if state.name != self.target.node:
            raise InvalidDocument("an event is about another Node")
        return state

    def _send_get(self) -> bool:
        """Sends a GET of the Node. Returns whether the Node exists. Raises NodeError."""
        call = self._call("get")
        with no_library_error(partial(from_request_error, call=call)):
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
        # LineStream's methods apply the limits. This longer timeout only ends a thread that nobody waits for any more.
        response = self._requests.watch(read_timeout=limits.connect + limits.header + limits.idle)
        if not response.chunked:  # a proxy has collected the whole response before it sent any of it
            response.close()
            raise self._held_back()
        return response

    def _call(self, verb: str) -> Call:
        target = self.target
        return Call(target.access, verb=verb, resource="nodes", node=target.node, user=target.user)

    def _unreachable(self, why: str) -> NodeUnreachable:
        access = self.target.access
        return NodeUnreachable(f"{access.api_server} {why}")

    def _held_back(self) -> WatchHeldBack:
        access = self.target.access
        return WatchHeldBack(
            f"{access.api_server} responds to a GET of the Node, but not to a watch. Does a proxy or a load balancer "
            "on the way hold responses back (buffering)?"
        )


def _http_error(status: object) -> HttpError:
    """The refusal of the watch that an ERROR event contains. status: a Kubernetes Status."""
    code = status.get("code") if isinstance(status, dict) else None
    if type(code) is not int or not 400 <= code <= 599:  # type(), because a bool is an int
        code = 500  # an API server that sends no valid code counts as unavailable
    return HttpError(code, headers={}, body=json.dumps(status).encode())

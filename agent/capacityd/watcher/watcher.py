"""The watcher's loop: it watches the Node, and reports each change of the Node's fingerprint to the resident process.

The request has no resourceVersion. So the first event of each connection shows the current Node, and no change between
two connections is missed. If the Node does not exist, the API server first sends a bookmark, at once or after a minute.
Source: Semantics for watch, kubernetes.io/docs/reference/using-api/api-concepts.

The resident process replaces a watcher that writes no line for a while. So the watcher writes a sign of life, an empty
line, when it begins to connect and after each bookmark. An API server sends a bookmark each minute. The watcher also
writes signs of life during a pause, and for events that change nothing.
"""

from __future__ import annotations

import json
import math
import os
import random
import ssl
import time
from urllib.parse import urlsplit

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import NodeUnauthorized
from capacityd.model.fingerprint import fingerprint
from capacityd.model.pace import MIN_JITTER_FACTOR, pause_seconds
from capacityd.model.reasons import RetryCause
from capacityd.node.tls import tls_context
from capacityd.watcher.connection import Connection, WatchFailure, refusal

LONG_CONNECTION = 5.0
"""If a connection has worked for this number of seconds, the next connection follows without a pause."""

_STDOUT = 1  # file descriptor
_SIGN_PERIOD = 30.0  # seconds between two signs of life during a pause, or for events that change nothing
_SIGN_OF_LIFE = ""  # an empty line
_NO_NODE = ""  # the fingerprint of a Node that does not exist


class Watcher:
    """Watches the target's Node as long as the process lives. Times are values of time.monotonic()."""

    def __init__(self, target: ClusterAccess) -> None:
        self._target = target
        self._context: ssl.SSLContext | None = None
        self._first_event_at: float | None = None
        """When the first event of the current connection arrived; None if it has not arrived."""
        self._reported: str | None = None
        """The fingerprint that was last reported on the current connection; None if none was reported."""
        self._failing_since: float | None = None
        """Since when connections have failed or been short; None if the last connection was long."""
        self._wrote_at = -math.inf

    def run(self) -> None:
        """Watches the Node forever. Raises OSError if the resident process has ended."""
        while True:
            self._first_event_at = None
            self._reported = None
            try:
                self._follow_connection()
                failure = WatchFailure("has ended the connection")
            except WatchFailure as e:
                failure = e
            self._wait_for_next_connection(failure)

    def _follow_connection(self) -> None:
        """Watches until the server ends the connection. Raises WatchFailure."""
        if self._context is None and urlsplit(self._target.server).scheme == "https":
            try:  # one context for all connections, because each context takes 3.7 MiB
                self._context = tls_context(self._target, self._target.authority)
            except NodeUnauthorized:
                raise WatchFailure("cannot be watched with these certificates") from None
        self._write(_SIGN_OF_LIFE)
        connection = Connection(self._target, self._context)
        try:
            line = connection.next_line()
            while line is not None:
                self._handle_event(line)
                line = connection.next_line()
        finally:
            connection.close()

    def _handle_event(self, line: bytes) -> None:
        """Reports the Node that an event shows, if the Node has changed. Raises WatchFailure."""
        node_seen = self._fingerprint_of(line)
        if self._first_event_at is None:
            self._first_event_at = time.monotonic()
        if node_seen is None:
            self._write(_SIGN_OF_LIFE)
        elif node_seen == self._reported:
            self._show_life()
        else:
            self._reported = node_seen
            self._write(json.dumps(["NodeSeen", {"fingerprint": node_seen}]))

    def _fingerprint_of(self, line: bytes) -> str | None:
        """The fingerprint of the Node in an event; None for a bookmark after another event. Raises WatchFailure."""
        try:
            event = json.loads(line)
            kind = event["type"]
            content = event["object"]
            if kind == "BOOKMARK":
                is_first_event = self._first_event_at is None
                return _NO_NODE if is_first_event else None  # a bookmark comes first only without a Node
            if kind == "ERROR":
                raise refusal(int(content["code"]))
            if content["metadata"]["name"] != self._target.node:
                raise WatchFailure("has sent an event about another Node")
            return _NO_NODE if kind == "DELETED" else fingerprint(content)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise WatchFailure("has sent an event that cannot be used") from None

    def _wait_for_next_connection(self, failure: WatchFailure) -> None:
        """Reports the failure, and waits until the next connection is due.

        After a long connection, the next connection is due at once. Then the failure is reported only if a reconcile
        pass must read the Node.
        """
        now = time.monotonic()
        was_long = self._first_event_at is not None and now - self._first_event_at >= LONG_CONNECTION
        if failure.look_now or not was_long:
            self._report_failure(failure)
        if was_long:
            self._failing_since = None
            return
        if self._failing_since is None:
            self._failing_since = now
        longest = pause_seconds(RetryCause.UNREACHABLE, now - self._failing_since, failure.retry_after)
        # A restarted server loses the connections of many Nodes at once, so a part of the pause is random.
        until = now + random.uniform(longest * MIN_JITTER_FACTOR, longest)  # noqa: S311  # jitter is no secret
        seconds_left = until - time.monotonic()
        while seconds_left > 0:
            self._show_life()
            time.sleep(min(seconds_left, _SIGN_PERIOD))
            seconds_left = until - time.monotonic()

    def _report_failure(self, failure: WatchFailure) -> None:
        reason = f"{self._target.api_server} {failure.reason}"
        self._write(json.dumps(["NotWatched", {"reason": reason, "look_now": failure.look_now}]))

    def _show_life(self) -> None:
        """Writes an empty line if no line was written for _SIGN_PERIOD. Not more often: each line wakes the service."""
        if time.monotonic() - self._wrote_at >= _SIGN_PERIOD:
            self._write(_SIGN_OF_LIFE)

    def _write(self, line: str) -> None:
        """Writes a message of model/messages.py, or an empty line, to the resident process."""
        remaining = f"{line}\n".encode()
        while remaining:
            written_bytes = os.write(_STDOUT, remaining)
            remaining = remaining[written_bytes:]
        self._wrote_at = time.monotonic()

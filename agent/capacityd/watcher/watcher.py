"""The watcher's loop: it watches the Node, and reports each change of its fingerprint to the resident process.

The request has no resourceVersion. So each connection begins with the Node as it is, and nothing is missed between two
connections. If no Node exists, the API server sends nothing, or a bookmark before any other event.
Source: Semantics for watch, kubernetes.io/docs/reference/using-api/api-concepts.
"""

from __future__ import annotations

import json
import os
import random
import ssl
import time
from urllib.parse import urlsplit

from capacityd.model.fingerprint import fingerprint
from capacityd.model.pace import pause
from capacityd.model.reasons import RetryCause
from capacityd.model.watch_target import WatchTarget
from capacityd.watcher.connection import Connection, WatchFailure, context_of, refusal
from capacityd.watcher.deadline import Late

FIRST_EVENT = 5.0
"""Seconds until the first event, if the Node exists. An API server sends it at once."""
IDLE = 65.0
"""Seconds between two events. An API server sends a bookmark each minute; one that hangs keeps its connections open."""
LONG_CONNECTION = 5.0
"""Seconds. A connection that worked for this time is followed by another one at once."""

_STDOUT = 1  # file descriptor
_LEAST_SHARE = 2 / 3  # the shortest random pause, as a share of the longest one
_NO_NODE = ""  # in place of a fingerprint


class Watcher:
    """Watches the target's Node as long as the process lives. Times are of time.monotonic()."""

    def __init__(self, target: WatchTarget) -> None:
        self._target = target
        self._context: ssl.SSLContext | None = None
        self._seen_at: float | None = None
        """When the current connection's first event arrived; None: not yet."""
        self._failing_since: float | None = None
        """Since when no connection has lasted; None: the last one has."""
        self._last_sent = ""

    def run(self) -> None:
        """Never returns. Raises OSError if the resident process has ended."""
        while True:
            self._seen_at = None
            try:
                self._follow_connection()
                failure = WatchFailure("has ended the connection")
            except WatchFailure as e:
                failure = e
            self._pause(failure)

    def _follow_connection(self) -> None:
        """Watches until the server ends the connection. Raises WatchFailure."""
        if self._context is None and urlsplit(self._target.server).scheme == "https":
            self._context = context_of(self._target)
        connection = Connection(self._target, self._context)
        try:
            line = self._first_line(connection)
            while line is not None:
                self._take(line)
                line = self._next_line(connection)
        finally:
            connection.close()

    def _first_line(self, connection: Connection) -> bytes | None:
        try:
            return connection.next_line(FIRST_EVENT)
        except Late:  # a pass knows whether the Node exists
            why = "has sent no event yet: the Node does not exist, or a proxy holds back responses (buffering)"
            self._report_failure(WatchFailure(why))
        return self._next_line(connection)

    def _next_line(self, connection: Connection) -> bytes | None:
        try:
            return connection.next_line(IDLE)
        except Late:
            raise WatchFailure(f"has sent nothing for {IDLE:g} s", look_now=True) from None

    def _take(self, line: bytes) -> None:
        """Takes an event. Raises WatchFailure."""
        try:
            event = json.loads(line)
            kind, content = event["type"], event["object"]
            if kind == "BOOKMARK":
                seen = _NO_NODE if self._seen_at is None else None
            elif kind == "ERROR":
                raise refusal(int(content["code"]))
            elif content["metadata"]["name"] != self._target.node:
                raise WatchFailure("has sent an event about another Node")
            else:
                seen = _NO_NODE if kind == "DELETED" else fingerprint(content)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise WatchFailure("has sent an event that cannot be used") from None
        is_first = self._seen_at is None
        if is_first:
            self._seen_at = time.monotonic()
        if seen is not None:
            self._send("NodeSeen", repeat=is_first, fingerprint=seen)

    def _pause(self, failure: WatchFailure) -> None:
        """Reports the failure, unless the next connection follows at once. Waits until that connection is due."""
        now = time.monotonic()
        if self._seen_at is not None and now - self._seen_at >= LONG_CONNECTION:
            self._failing_since = None
            if failure.look_now:
                self._report_failure(failure)
            return
        self._report_failure(failure)
        if self._failing_since is None:
            self._failing_since = now
        longest = pause(RetryCause.UNREACHABLE, now - self._failing_since, failure.retry_after)
        # A restarted server loses the connections of many Nodes at once, so a part of the pause is random.
        time.sleep(random.uniform(longest * _LEAST_SHARE, longest))  # noqa: S311  # jitter is no secret

    def _report_failure(self, failure: WatchFailure) -> None:
        reason = f"{self._target.api_server} {failure.reason}"
        self._send("NotWatched", repeat=failure.look_now, reason=reason, look_now=failure.look_now)

    def _send(self, name: str, *, repeat: bool, **fields: object) -> None:
        """Sends a message of model/messages.py. repeat: also if it is equal to the last one."""
        line = json.dumps([name, fields])
        if repeat or line != self._last_sent:
            remaining = f"{line}\n".encode()
            while remaining:
                remaining = remaining[os.write(_STDOUT, remaining) :]
        self._last_sent = line

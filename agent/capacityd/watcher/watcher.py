"""The watcher's loop: it watches the Node, and reports each change of the Node's fingerprint to the resident process.

The request has no resourceVersion. So the first event of each connection shows the current Node, and no change between
two connections is missed. If the Node does not exist, the API server sends nothing, or first sends a bookmark.
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
"""Seconds to wait for the first event. If the Node exists, an API server sends this event at once."""
IDLE = 65.0
"""Seconds to wait for the next event. An API server sends a bookmark each minute, unless it hangs."""
LONG_CONNECTION = 5.0
"""If a connection has worked for this number of seconds, the next connection follows without a pause."""

_STDOUT = 1  # file descriptor
_LEAST_SHARE = 2 / 3  # the shortest random pause, as a share of the longest pause
_NO_NODE = ""  # the fingerprint of a Node that does not exist


class Watcher:
    """Watches the target's Node as long as the process lives. Times come from time.monotonic()."""

    def __init__(self, target: WatchTarget) -> None:
        self._target = target
        self._context: ssl.SSLContext | None = None
        self._seen_at: float | None = None
        """When the first event of the current connection arrived; None if it has not arrived."""
        self._failing_since: float | None = None
        """Since when connections have failed or been short; None if the last connection was long."""
        self._last_sent = ""

    def run(self) -> None:
        """Watches the Node forever. Raises OSError if the resident process has ended."""
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
        except Late:  # only a pass can find out whether the Node exists
            why = "has sent no event yet: the Node does not exist, or a proxy holds back responses (buffering)"
            self._report_failure(WatchFailure(why))
        return self._next_line(connection)

    def _next_line(self, connection: Connection) -> bytes | None:
        try:
            return connection.next_line(IDLE)
        except Late:
            raise WatchFailure(f"has sent nothing for {IDLE:g} s", look_now=True) from None

    def _take(self, line: bytes) -> None:
        """Reports the Node that an event shows. Raises WatchFailure."""
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
        """Reports the failure, and waits until the next connection is due.

        After a long connection, the next connection is due at once. Then the failure is reported only if a pass must
        read the Node.
        """
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
        """Sends a message of model/messages.py. repeat: whether to send the message even if it equals the last one."""
        line = json.dumps([name, fields])
        if repeat or line != self._last_sent:
            remaining = f"{line}\n".encode()
            while remaining:
                remaining = remaining[os.write(_STDOUT, remaining) :]
        self._last_sent = line

"""A model of the watcher: each event reaches it after a delay, a connection may end or hang, and the next one begins
with the Node as it is. So the watcher may be late, but it learns the end state.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from capacityd.model.fingerprint import fingerprint

if TYPE_CHECKING:
    from tests.support.world import World

LONGEST_PAUSE = 30.0
"""Seconds until the watcher connects again, at most."""
IDLE_LIMIT = 65.0
"""Seconds without a sign of the server after which the watcher opens a new connection."""


class ModelWatch:
    """The watch of a machine's Node. changed: called after each message of the watcher."""

    def __init__(self, world: World, changed: Callable[[], None]) -> None:
        self._world = world
        self._changed = changed
        self.delay = 0.0
        """Seconds until the watcher sees a change, for example behind a proxy."""
        self.possible = True
        """Whether the API server lets the Node be watched."""
        self.seen: str | None = None
        """The hash of the Node as the watcher last reported it; None: it is not watched."""
        self.late_at = float("-inf")
        """When the watcher was last late: an event was on its way, or there was no connection."""
        self._running = False
        self._connection = 0  # counts the connections; events of an earlier one are dropped
        self._connected = False
        self._hangs = False
        self._arrives_at = 0.0  # when the last event on its way arrives: events keep their order
        world.server.listeners.append(self._on_change)

    @property
    def is_late(self) -> bool:
        """Whether the watcher may not know the Node as it is."""
        uptime = self._world.uptime
        if not self._connected or self._hangs or self._arrives_at > uptime or self.delay:
            self.late_at = uptime
        return self.late_at == uptime

    def start(self) -> None:
        """The service starts the watcher, unless it is running."""
        if not self._running:
            self._running = True
            self._connect()

    def stop(self) -> None:
        """The service ends the watcher."""
        self._disconnect()
        self._running, self.seen = False, None

    def end(self) -> None:
        """The service ends, too."""
        self.stop()
        self._world.server.listeners.remove(self._on_change)

    def forbid(self, *, possible: bool) -> None:
        """From now on, the Node can or cannot be watched. An open connection ends."""
        self.possible = possible
        self.cut(0.0)

    def cut(self, pause: float) -> None:
        """The connection ends, and the watcher connects again after this pause."""
        if self._running:
            self._disconnect()
            if pause:
                self._report(None)
            self._later(pause, self._connect)

    def hang(self, seconds: float) -> None:
        """No event arrives any more, and after this time the watcher opens a new connection."""
        self._hangs = self._connected
        self._later(min(seconds, IDLE_LIMIT), lambda: self.cut(0.0))

    def end_hang(self) -> None:
        """The connection that hangs ends, if there is one."""
        if self._hangs:
            self.cut(0.0)

    def repeat(self) -> None:
        """The API server sends the Node again, although it has not changed."""
        self._on_change()

    def _disconnect(self) -> None:
        self.late_at = self._world.uptime
        self._connection += 1
        self._connected = self._hangs = False

    def _later(self, seconds: float, happens: Callable[[], None]) -> None:
        connection = self._connection
        self._world.later(seconds, lambda: happens() if connection == self._connection else None)

    def _connect(self) -> None:
        if self._world.server.fault == "unreachable":
            self._report(None)
            self._later(LONGEST_PAUSE, self._connect)
            return
        if not self.possible:  # the watcher ends; the next pass starts another
            self._running = False
            self._report(None)
            return
        self._arrives_at = self._world.uptime
        self._connected = True
        self._send(first=True)

    def _on_change(self) -> None:
        if self._connected and not self._hangs:
            self._send(first=False)

    def _send(self, *, first: bool) -> None:
        """An event leaves the API server, with the Node as it is now."""
        document = copy.deepcopy(self._world.server.document)
        self._arrives_at = max(self._arrives_at, self._world.uptime + self.delay)
        wait = self._arrives_at - self._world.uptime
        if wait:
            self._later(wait, lambda: self._take(document, first=first))
        else:
            self._take(document, first=first)

    def _take(self, document: dict[str, Any] | None, *, first: bool) -> None:
        """An event arrives."""
        if self._hangs:
            return
        seen = "" if document is None else fingerprint(document)
        if first or seen != self.seen:
            self._report(seen)

    def _report(self, seen: str | None) -> None:
        """The watcher sends the service what it sees; None: the Node is not watched."""
        self.seen = seen
        self._changed()

"""A model of the watcher: it sees the Node after a delay, connections may end, and a new one begins with the Node as it
is. It never keeps the end state to itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from capacityd.model.watch import WatchedNode, fingerprint
from capacityd.node.documents.node import node_state
from capacityd.worker.target_job import watched_names

if TYPE_CHECKING:
    from tests.support.world import World

LONGEST_PAUSE = 30.0
"""Seconds until the watcher connects again, at most."""


class ModelWatch:
    """The watch of a machine's Node. changed: called after each change that the watcher reports."""

    def __init__(self, world: World, changed: Callable[[], None]) -> None:
        self._world = world
        self._changed = changed
        self.delay = 0.0
        """Seconds until the watcher sees a change, for example behind a proxy."""
        self.seen: str | None = None
        """The hash of the Node as it was seen; None: it is not watched."""
        self._connection = 0  # counts the connections; events of an earlier one are dropped
        self._connected_at = 0.0
        self._names: frozenset[str] = frozenset()
        world.server.on_change = self._on_change

    def start(self) -> None:
        """The service starts the watcher, unless it is running."""
        if self.seen is None:
            self._connect()

    def stop(self) -> None:
        """The service ends the watcher, or the watcher loses its connection."""
        self._connection += 1
        self.seen = None
        self._world.machine.watched = None

    def cut(self, pause: float) -> None:
        """The connection ends, and the watcher connects again after this pause."""
        if self.seen is not None:
            self.stop()
            self._changed()
            self._later(pause, self._connect)

    def _later(self, seconds: float, happens: Callable[[], None]) -> None:
        connection = self._connection
        self._world.later(seconds, lambda: happens() if connection == self._connection else None)

    def _connect(self) -> None:
        if self._world.server.fault == "unreachable":
            self._later(LONGEST_PAUSE, self._connect)
            return
        machine = self._world.machine
        self._connected_at = machine.uptime
        self._names = watched_names(machine.configured, machine.own_record)
        self._see(first=True)

    def _on_change(self) -> None:
        if self.seen is None:
            return
        if self.delay:
            self._later(self.delay, self._see)
        else:
            self._see()

    def _see(self, *, first: bool = False) -> None:
        """The watcher receives the Node. A delayed event contains the Node as it is then: earlier ones are not kept."""
        document = self._world.server.document
        state = None if document is None else node_state(document)
        self._world.machine.watched = WatchedNode(state, "n1", self._connected_at, self._names)
        last, self.seen = self.seen, fingerprint(state, self._names)
        if first or last != self.seen:
            self._changed()

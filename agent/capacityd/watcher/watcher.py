"""The watcher's loop: it watches the Node, saves it for the passes, and reports changes to the resident process."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing, suppress

from capacityd import __version__
from capacityd.linux.atomic_file import replace_file
from capacityd.linux.clock import uptime
from capacityd.model.errors import CapacitydError, NodeUnauthorized, NodeUnreachable, StateError, WatchHeldBack
from capacityd.model.file_codec import to_file
from capacityd.model.messages import WATCHED_NODE, NodeSeen, NotWatched, WatcherMessage
from capacityd.model.node import NodeState
from capacityd.model.watch import WatchedNode, fingerprint
from capacityd.node.identity import require_own_machine
from capacityd.node.watch import Alive, Limits, Missing, NodeWatch
from capacityd.node.watch_target import WatchTarget
from capacityd.watcher import send_message
from capacityd.watcher.backoff import Backoff
from capacityd.watcher.target import read_target

_MAX_TARGET_AGE = 300.0
"""Seconds after which the credentials are read again, before the next connection."""
_MAY_FAIL_FOR = 30.0
"""Seconds for which a failure may be temporary once the Node has been watched: an API server that has just started does
not know all rights, and an overloaded one responds to a watch late."""


class Watcher:
    """Watches the Node until it cannot be watched.

    folder: for watched.json. command: starts the worker that determines what to watch. limits: shorter in tests.
    """

    def __init__(self, folder: str, command: Sequence[str], limits: Limits) -> None:
        self._path = os.path.join(folder, WATCHED_NODE)
        self._command = command
        self._limits = limits
        self._backoff = Backoff()
        self._target: WatchTarget | None = None
        self._watch: NodeWatch | None = None
        self._target_read_at = 0.0
        """When the target was read (time.monotonic())."""
        self._is_target_new = False
        """Whether the target was read for the current connection."""
        self._has_watched = False
        """Whether the Node has been watched."""
        self._failing_since: float | None = None
        """When connections began to be denied or held back (time.monotonic()); None: the last one was not."""
        self._connected_at = 0.0
        """When the current connection was begun, in seconds of uptime."""
        self._first_event_at: float | None = None
        """When the current connection's first event was saved (time.monotonic()); None: not yet."""
        self._last_sent: WatcherMessage | None = None
        """The last message that was sent to the resident process."""

    def run(self) -> None:
        """Returns only when the Node cannot be watched, for a reason that does not end by itself."""
        try:
            while True:
                self._remove_file()
                failure = self._follow_connection()
                self._remove_file()
                if isinstance(failure, NodeUnauthorized) and not self._is_target_new:
                    self._watch = None  # read the target again: the credentials may have been replaced
                elif self._is_final(failure):
                    self._send(NotWatched(str(failure)))
                    return
                else:
                    self._pause(failure)
        finally:
            self._remove_file()

    def _follow_connection(self) -> CapacitydError | None:
        """Watches until the connection ends. Returns why it ended; None if the server closed it normally."""
        self._first_event_at = None
        try:
            target, watch = self._current_target()
            self._connected_at = uptime()
            with closing(watch.connect()) as events:
                for event in events:
                    if isinstance(event, Alive):
                        continue
                    state = None if isinstance(event, Missing) else event
                    self._save_and_report(state, target)
        except CapacitydError as e:
            return e
        return None

    def _current_target(self) -> tuple[WatchTarget, NodeWatch]:
        """Returns the target, read again if it is old. Raises NodeError."""
        now = time.monotonic()
        if self._target and self._watch and now - self._target_read_at < _MAX_TARGET_AGE:
            self._is_target_new = False
            return self._target, self._watch
        self._is_target_new = True
        self._watch = None
        self._target = read_target(self._command)
        self._target_read_at = now
        self._watch = NodeWatch(self._target, self._limits)
        return self._target, self._watch

    def _save_and_report(self, state: NodeState | None, target: WatchTarget) -> None:
        """Saves the Node, and reports it if it has changed. state: None if it does not exist.

        Raises NodeUnauthorized if it is another machine's, StateError if it can't be saved.
        """
        if state:
            require_own_machine(state, machine_id=target.machine_id, system_uuid=target.system_uuid)
        try:
            seen = NodeSeen(fingerprint(state, target.names))
            watched = WatchedNode(
                state,
                name=target.node,
                connected_at=self._connected_at,
                names=target.names,
                server=target.access.api_server,
            )
            content = to_file(watched, __version__)
        except RecursionError:
            raise NodeUnreachable(f"{target.access.api_server} sent a Node that is nested too deeply") from None
        try:
            replace_file(self._path, content, mode=0o600)
        except OSError as e:
            raise StateError(f"{self._path} could not be written: {os.strerror(e.errno or 0)}") from e
        is_first = self._first_event_at is None
        if is_first:
            self._first_event_at = time.monotonic()
        self._has_watched = True
        self._failing_since = None
        if is_first or seen != self._last_sent:
            self._send(seen)

    def _is_final(self, failure: CapacitydError | None) -> bool:
        """Whether to give up, because the failure lasts until something is changed.

        Once the Node has been watched, only if connections have been denied or held back for _MAY_FAIL_FOR seconds.
        This method notes the time of the first such failure.
        """
        if failure is None or isinstance(failure, NodeUnreachable | StateError):
            return False
        if isinstance(failure, NodeUnauthorized | WatchHeldBack) and self._has_watched:
            now = time.monotonic()
            if self._failing_since is None:
                self._failing_since = now
            return now - self._failing_since >= _MAY_FAIL_FOR
        return True

    def _pause(self, failure: CapacitydError | None) -> None:
        """Waits until the next connection is due. Reports the failure, unless the connection has worked and the next
        one follows at once."""
        has_worked = self._first_event_at is not None
        lasted = 0.0 if self._first_event_at is None else time.monotonic() - self._first_event_at
        retry_after = failure.retry_after if isinstance(failure, NodeUnreachable) else None
        pause = self._backoff.pause(lasted, retry_after)
        message = NotWatched(str(failure or "the API server has ended the connection"))
        follows_at_once = has_worked and pause == 0.0
        if not follows_at_once and message != self._last_sent:
            self._send(message)
        time.sleep(pause)

    def _send(self, message: WatcherMessage) -> None:
        send_message(message)
        self._last_sent = message

    def _remove_file(self) -> None:
        """Removes watched.json, so that no pass takes an earlier state of the Node for the current one."""
        for path in (self._path, f"{self._path}.new"):
            with suppress(OSError):
                os.unlink(path)

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
from capacityd.node.identity import is_kubelet_of, require_own_machine
from capacityd.node.watch import Limits, NodeWatch
from capacityd.node.watch_target import WatchTarget
from capacityd.watcher import send_message
from capacityd.watcher.backoff import Backoff
from capacityd.watcher.target import read_target

_MAX_TARGET_AGE = 300.0
"""Seconds after which the credentials are read again, before the next connection."""
_MAY_FAIL_FOR = 30.0
"""Seconds for which connections may be denied (NodeUnauthorized) or held back (WatchHeldBack: no response arrives) once
the Node has been watched: an API server that has just started does not know all rights, and an overloaded one responds
to a watch late."""


class Watcher:
    """Watches the Node until it cannot be watched.

    folder: for watched.json. command: starts the worker that determines the target: the Node, the API server, and the
    credentials. limits: shorter in tests. Times are of time.monotonic(), unless their names say otherwise.
    """

    def __init__(self, folder: str, command: Sequence[str], limits: Limits) -> None:
        self._path = os.path.join(folder, WATCHED_NODE)
        self._command = command
        self._limits = limits
        self._backoff = Backoff()
        self._watch: NodeWatch | None = None
        """None: the target must be read before the next connection."""
        self._target_read_at = 0.0
        self._is_target_new = False
        """Whether the target was read for the current connection."""
        self._has_watched = False
        """Whether the Node has been watched."""
        self._failing_since: float | None = None
        """When connections began to be denied or held back; None: no connection was, since the Node was last saved."""
        self._first_event_at: float | None = None
        """When the current connection's first event was saved; None: not yet."""
        self._last_sent: WatcherMessage | None = None
        """The last message that was sent to the resident process."""

    def run(self) -> None:
        """Returns only when the Node cannot be watched, for a reason that does not end by itself."""
        try:
            self._remove_file()  # an earlier process may have left it
            while True:
                failure = self._follow_connection()
                self._remove_file()  # without a connection, the Node may change unnoticed
                if isinstance(failure, NodeUnauthorized) and not self._is_target_new:
                    self._watch = None  # the credentials may have been replaced
                    continue
                if self._is_final(failure):
                    self._send(NotWatched(str(failure)))
                    return
                self._pause(failure)
        finally:  # also at a signal
            self._remove_file()

    def _follow_connection(self) -> CapacitydError | None:
        """Watches until the connection ends. Returns why it ended; None if the server closed it normally."""
        self._first_event_at = None
        try:
            watch = self._current_watch()
            connected_at_uptime = uptime()  # before the request, so that the first event is not older
            with closing(watch.connect()) as states:
                for state in states:
                    self._save_and_report(state, watch.target, connected_at_uptime)
        except CapacitydError as e:
            return e
        return None

    def _current_watch(self) -> NodeWatch:
        """Returns the watch of the target. Reads the target again if the last read was too long ago. Raises
        NodeError."""
        now = time.monotonic()
        if self._watch and now - self._target_read_at < _MAX_TARGET_AGE:
            self._is_target_new = False
            return self._watch
        self._is_target_new = True
        self._watch = None  # after an error below, the next connection reads the target again
        target = read_target(self._command)
        self._target_read_at = now
        self._watch = NodeWatch(target, self._limits)
        return self._watch

    def _save_and_report(self, state: NodeState | None, target: WatchTarget, connected_at_uptime: float) -> None:
        """Saves the Node, and reports it if it has changed. state: None if the Node does not exist.

        Raises NodeUnauthorized if the Node is another machine's, StateError if it can't be saved.
        """
        if state:
            require_own_machine(state, machine_id=target.machine_id, system_uuid=target.system_uuid)
        try:
            seen = NodeSeen(fingerprint(state, target.names))
            watched = WatchedNode(
                state,
                name=target.node,
                connected_at=connected_at_uptime,
                names=target.names,
                server=target.access.api_server,
                named_by_credentials=is_kubelet_of(target.user, target.node),
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

        Once the Node has been watched, connections may be denied or held back for _MAY_FAIL_FOR seconds. This method
        notes the time of the first such failure.
        """
        if failure is None or isinstance(failure, NodeUnreachable | StateError):
            return False
        may_be_temporary = self._has_watched and isinstance(failure, NodeUnauthorized | WatchHeldBack)
        if not may_be_temporary:
            return True
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        return now - self._failing_since >= _MAY_FAIL_FOR

    def _pause(self, failure: CapacitydError | None) -> None:
        """Waits until the next connection is due. Reports the failure, unless the next connection follows at once."""
        lasted = 0.0 if self._first_event_at is None else time.monotonic() - self._first_event_at
        retry_after = failure.retry_after if isinstance(failure, NodeUnreachable) else None
        pause = self._backoff.pause(lasted, retry_after)
        message = NotWatched(str(failure or "the API server has ended the connection"))
        if pause > 0.0 and message != self._last_sent:
            self._send(message)
        time.sleep(pause)

    def _send(self, message: WatcherMessage) -> None:
        send_message(message)
        self._last_sent = message

    def _remove_file(self) -> None:
        """Removes watched.json, so that no pass takes an earlier state of the Node for the current one."""
        for path in (self._path, f"{self._path}.new"):  # replace_file() first writes to the path with .new
            with suppress(OSError):
                os.unlink(path)

"""The service's worker and watcher in this process, in place of child processes."""

from __future__ import annotations

import json
import select
from collections.abc import Callable
from typing import TYPE_CHECKING

from capacityd.model.codec import decode, encode_variant, parse
from capacityd.model.fingerprint import fingerprint
from capacityd.model.messages import JobRequest, Message, NodeSeen, NotWatched, WatcherMessage
from capacityd.model.reasons import Job
from capacityd.service.child_process import ChildProcess
from tests.support.judge.surroundings import Writer
from tests.support.model import worker

if TYPE_CHECKING:
    from tests.support.model.service import ModelService

WORKER_TAKES = 0.1
"""Seconds from a job until its messages arrive."""
PAUSE = 4.0
"""Seconds from a refusal until the watcher connects again."""
SIGN_PERIOD = 60.0
"""Seconds between two signs of life."""


class ModelChild(ChildProcess):
    """A child without a process. Subclasses write the lines that the service reads."""

    def __init__(self, service: ModelService) -> None:
        self.service = service
        self.pid = service.new_pid()
        self.has_ended = False
        self.is_killed = False
        self._lines: list[bytes] = []
        self._ends = False  # then the child has ended as soon as its lines are read

    def register(self, poll: select.poll) -> None:
        """Nothing is polled. has_output replaces poll()."""

    def fileno(self) -> int:
        return self.pid

    def send(self, line: bytes) -> None:
        """The child reads nothing."""

    def flush(self) -> None:
        """Does nothing: send() sends at once."""

    @property
    def has_output(self) -> bool:
        return bool(self._lines) or self._ends

    def read_lines(self) -> list[bytes]:
        lines, self._lines = self._lines, []
        self.has_ended = self._ends
        return lines

    def kill(self) -> None:
        self.is_killed = True
        self.service.remove_child(self)

    def write(self, line: bytes) -> None:
        if not self.is_killed:
            self._lines.append(line)

    def end(self) -> None:
        """The child ends, unless it was killed."""
        self._ends = not self.is_killed


class ModelWorker(ModelChild):
    """A worker. It does its job at once, and its messages arrive a moment later."""

    def send(self, line: bytes) -> None:
        service, request = self.service, decode(JobRequest, parse(line))
        messages: list[Message] = [worker.check(service.machine)]
        if request.job is not Job.CHECK:
            messages, killed = service.run_pass(request)
            if killed:
                service.killed_pids.add(self.pid)
        service.world.later(WORKER_TAKES, lambda: self._end_with(messages))

    def _end_with(self, messages: list[Message]) -> None:
        for message in messages:
            self.write(json.dumps(encode_variant(message)).encode())
        self.end()


class ModelWatcher(ModelChild):
    """The watcher. Each change of the Node reaches it after a delay. A connection may end or hang.

    A new connection begins with the present Node. So the watcher may be late, but it learns the Node's last state.
    """

    def __init__(self, service: ModelService) -> None:
        super().__init__(service)
        self.is_connected = False
        """Whether the watcher watches the Node, or seems to (its connection may hang)."""
        self.hangs = False
        """Whether the connection is dead without the watcher's knowledge."""
        self._connection = 0  # the number of the connection; events of earlier connections are dropped
        self._arrives_at = 0.0  # when the newest event on its way arrives: no later event may overtake it
        self._last_message: WatcherMessage | None = None
        service.server.listeners.append(self._on_change)

    def send(self, line: bytes) -> None:
        """The watcher gets its target, and connects."""
        self._connect()
        self._show_life()

    def kill(self) -> None:
        self._disconnect()
        self.service.server.listeners.remove(self._on_change)
        super().kill()

    def cut(self, pause: float) -> None:
        """The connection ends, and the watcher connects again after this pause."""
        self._disconnect()
        if pause:
            self._report(NotWatched("the API server has ended the connection"))
        self._later(pause, self._connect)

    def hang(self, seconds: float) -> None:
        """Nothing arrives any more. The connection ends after this time, if the watcher still runs."""
        self.hangs = self.is_connected
        self._later(seconds, self.end_hang)

    def end_hang(self) -> None:
        """Ends a connection that hangs."""
        if self.hangs:
            self.cut(0.0)

    def _show_life(self) -> None:
        """Writes an empty line (a sign of life) again and again."""
        if not self.hangs:
            self.write(b"")
        if not self.is_killed:
            self.service.world.later(SIGN_PERIOD, self._show_life)

    def repeat(self) -> None:
        """The API server sends the Node again, although it has not changed."""
        self._on_change(Writer.OTHER)

    def _disconnect(self) -> None:
        self._connection += 1
        self.is_connected = self.hangs = False

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        """Makes an action happen after some seconds, if the connection is still the same."""
        connection = self._connection

        def act_if_connected() -> None:
            if connection == self._connection:
                action()

        self.service.world.later(seconds, act_if_connected)

    def _connect(self) -> None:
        service = self.service
        if service.server.fault or not service.can_watch:
            self._report(NotWatched("the API server refuses"))
            self._later(PAUSE, self._connect)
            return
        self.is_connected = True
        self._arrives_at = service.machine.uptime
        self._last_message = None
        if service.server.document is None:
            self._report(NodeSeen(""))  # after the server's first bookmark, the watcher knows that there is no Node
        self._on_change(Writer.OTHER)

    def _on_change(self, _: Writer) -> None:
        if not self.is_connected or self.hangs:
            return
        document, delay = self.service.server.document, self.service.watch_delay
        seen = NodeSeen("" if document is None else fingerprint(document))
        self._arrives_at = max(self._arrives_at, self.service.machine.uptime + delay)
        wait = self._arrives_at - self.service.machine.uptime
        if wait > 0:
            self._later(wait, lambda: self._receive(seen))
        else:
            self._receive(seen)

    def _receive(self, seen: NodeSeen) -> None:
        """An event arrives."""
        if not self.hangs:
            self._report(seen)

    def _report(self, message: WatcherMessage) -> None:
        if message != self._last_message:
            self._last_message = message
            self.write(json.dumps(encode_variant(message)).encode())

"""Starts and ends the watcher, which is the process that watches the Node, and reads its messages."""

from __future__ import annotations

import math
import os
import select
import time
from contextlib import suppress

from capacityd.model.messages import NodeSeen, NotWatched, WatcherMessage
from capacityd.service.child_process import ChildProcess, decoded
from capacityd.service.node_comparison import NodeComparison
from capacityd.service.system import REAL_SYSTEM, System

SILENCE = 65.0
"""If the watcher writes no line for this number of seconds, the service ends the watcher. An API server sends a
bookmark each minute, and the watcher writes a line for each bookmark. If no line comes, the server or the watcher
hangs, the connection is dead, or a proxy holds back the responses."""


class WatcherProcess:
    """The watcher process, which may not be running, and its last report. command: the command that starts it."""

    def __init__(self, command: list[str], system: System = REAL_SYSTEM) -> None:
        self._system = system
        self._command = command
        self._process: ChildProcess | None = None
        # The hash of the running watcher's target. The target itself is not kept, because it may contain credentials.
        self._target_hash = 0
        self._heard_at = 0.0  # when the running process started, or last wrote a line
        self.comparison = NodeComparison()
        self.watched_since: float | None = None
        """Since when the Node has been watched, in seconds since the epoch; None: the Node is not watched."""
        self.not_watched_because = ""
        """Why the Node is not watched; "" if it is watched, or if the watch has not begun yet."""

    @property
    def pids(self) -> list[int]:
        """The PID of the watcher, if it is running."""
        return [self._process.pid] if self._process else []

    @property
    def is_running(self) -> bool:
        """Whether the watcher is running."""
        return self._process is not None

    @property
    def silent_at(self) -> float:
        """When read_messages() ends the watcher if no line comes first; infinity if the watcher is not running."""
        return self._heard_at + SILENCE if self.is_running else math.inf

    def register(self, poll: select.poll) -> None:
        """Lets poll() return when there is a message to read."""
        if self._process:
            self._process.register(poll)

    def watch(self, target: str) -> NotWatched | None:
        """Starts the watcher, unless it already watches this target. Returns the error if it could not be started.

        target: a ClusterAccess as JSON.
        """
        if self._process is not None:
            if self._target_hash == hash(target):
                return None
            self.stop()
        try:
            self._process = self._system.start_child(self._command)
        except OSError as e:  # out of memory, processes or file descriptors
            failure = NotWatched(f"the watcher could not be started: {e.strerror}")
            self._set_not_watched(failure.reason)
            return failure
        self._target_hash = hash(target)
        self._heard_at = self._system.monotonic()
        self._process.send(target.encode())
        return None

    def read_messages(self) -> NotWatched | None:
        """Reads the messages since the last call, and ends a silent watcher. Returns the newest failure, if any."""
        if self._process is None:
            return None
        self._process.flush()
        failure: NotWatched | None = None
        lines = self._process.read_lines()
        if lines:
            self._heard_at = self._system.monotonic()
        for message in decoded(lines, WatcherMessage):
            if isinstance(message, NodeSeen):
                self._set_watched(message.fingerprint)
            else:
                failure = message
                self._set_not_watched(message.reason)
        if self._process.has_ended:
            return self._end_unexpectedly("the watcher has ended unexpectedly")
        if self.silent_at <= self._system.monotonic():
            return self._end_unexpectedly(f"the watcher has received nothing for {SILENCE:g} s")
        return failure

    def _end_unexpectedly(self, reason: str) -> NotWatched:
        """Ends the watcher. Returns the failure, after which a pass must read the Node, and start the watcher again."""
        self.stop(reason)
        return NotWatched(reason, look_now=True)

    def _set_watched(self, fingerprint: str) -> None:
        self.not_watched_because = ""
        self.comparison.report(fingerprint)
        if self.watched_since is None:
            self.watched_since = time.time()

    def stop(self, reason: str = "") -> None:
        """Ends the watcher, if it is running. reason: why the Node is no longer watched; "" if a new watch follows."""
        if self._process is not None:
            self._process.kill()
            # If the watcher has not ended yet, WorkerProcess.kill() reaps it later.
            with suppress(ChildProcessError):  # WorkerProcess.kill() has already reaped it
                os.waitpid(self._process.pid, os.WNOHANG)
            self._process = None
        self._set_not_watched(reason)

    def _set_not_watched(self, reason: str) -> None:
        self.watched_since = None
        self.not_watched_because = reason
        self.comparison.report(None)

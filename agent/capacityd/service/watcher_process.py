"""The watcher as the service sees it: the process that watches the Node, and what it last reported."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from capacityd.model.codec import Malformed, decode_variant, parse
from capacityd.model.messages import WATCHED_NODE, NodeSeen, NotWatched, WatcherMessage
from capacityd.service.child_process import ChildProcess
from capacityd.service.node_comparison import NodeComparison
from capacityd.service.surroundings import REAL, Surroundings


class WatcherProcess:
    """The watcher process, which may not be running, and its last report.

    command: starts the watcher. folder: the runtime directory.
    """

    def __init__(self, command: list[str], folder: str, around: Surroundings = REAL) -> None:
        self._around = around
        self._command = command
        self._path = os.path.join(folder, WATCHED_NODE)
        self._process: ChildProcess | None = None
        self.comparison = NodeComparison()
        self.watched_since: float | None = None
        """Since when the Node has been watched, in seconds since the epoch; None: it is not."""
        self.not_watched_because = ""
        """Why the Node is not watched; empty if it is, or if the watch has not begun yet."""
        self._remove_file()  # an earlier watcher may have left it

    @property
    def pid(self) -> int:
        """The PID of the watcher; 0 if it is not running."""
        return self._process.pid if self._process else 0

    def filenos(self) -> list[int]:
        """The file descriptor to poll, if the watcher is running."""
        return [self._process.fileno()] if self._process else []

    def start(self) -> None:
        """Starts the watcher, unless it is running."""
        if self._process is not None:
            return
        try:
            self._process = self._around.start_child(self._command)
        except OSError as e:  # out of memory, processes or file descriptors
            self._set_not_watched(f"the watcher could not be started: {e.strerror}")

    def read_messages(self) -> None:
        """Reads the messages since the last call."""
        if self._process is None:
            return
        for line in self._process.read_lines():
            with suppress(Malformed):  # a line that a library has printed
                message: WatcherMessage = decode_variant(WatcherMessage, parse(line))
                self._take(message)
        if self._process.has_no_more_messages:
            self.stop(self.not_watched_because or "the watcher has ended unexpectedly")

    def _take(self, message: WatcherMessage) -> None:
        if isinstance(message, NodeSeen):
            self.not_watched_because = ""
            self.comparison.report(message.fingerprint)
            if self.watched_since is None:
                self.watched_since = time.time()
        elif isinstance(message, NotWatched):
            self._set_not_watched(message.reason)

    def stop(self, reason: str = "") -> None:
        """Ends the watcher, if it is running. reason: why the Node is no longer watched; "" if a new watch follows."""
        if self._process is not None:
            self._process.kill()
            # If the watcher has not ended yet, the end of the next worker reaps it.
            with suppress(ChildProcessError):  # the end of a worker has already reaped it
                os.waitpid(self._process.pid, os.WNOHANG)
            self._process = None
        self._set_not_watched(reason)
        self._remove_file()

    def _set_not_watched(self, reason: str) -> None:
        self.watched_since = None
        self.not_watched_because = reason
        self.comparison.report(None)

    def _remove_file(self) -> None:
        """Removes watched.json, so that no pass takes an earlier state of the Node for the current one."""
        with suppress(OSError):
            os.unlink(self._path)

"""Runs the watcher as the service does, and reads its messages."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.codec import decode_variant, parse
from capacityd.model.messages import NodeSeen, NotWatched, WatcherMessage
from tests import ROOT
from tests.support.watch_server import DEADLINE

_START = """
import json, sys
sys.path.insert(0, sys.argv[1])
from capacityd.model import pace
from capacityd.watcher import connection, main, watcher
limits = json.loads(sys.argv[2])
pace.SHORTEST_PAUSE.update(dict.fromkeys(pace.SHORTEST_PAUSE, limits.pop("shortest_pause")))
for name, seconds in limits.items():  # each is a constant of one of these two modules
    setattr(connection if hasattr(connection, name) else watcher, name, seconds)
sys.exit(main.main([]))
"""
BRIEF: dict[str, Any] = {"_TIMEOUT": 0.5}
"""A shorter limit of the watcher in seconds, for a server that is silent on purpose."""


class Watching:
    """A running watcher."""

    def __init__(
        self,
        target: ClusterAccess | str,
        python: str | Path = sys.executable,
        limits: Mapping[str, float] = MappingProxyType({}),
        before: str = "",
    ) -> None:
        """Starts a watcher. target: the target or its text. before: Python code that runs before the watcher.

        limits: constants of the watcher, in seconds.
        """
        self.messages: list[WatcherMessage] = []
        self.signs = 0
        """How many signs of life the watcher has sent besides messages."""
        self._changed = threading.Condition()
        limits_json = json.dumps({"shortest_pause": 0.2, **limits})
        self.process = subprocess.Popen(
            [python, "-I", "-c", before + _START, ROOT / "agent", limits_json],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin is not None
        text = target if isinstance(target, str) else target.as_json()
        self.process.stdin.write(f"{text}\n".encode())
        self.process.stdin.flush()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Waits until the condition is true."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, f"{what}; messages: {self.messages}"
            with self._changed:
                self._changed.wait(0.02)

    def wait_messages(self, count: int) -> list[WatcherMessage]:
        """Waits for this many messages in total, and returns them."""
        self.wait(lambda: len(self.messages) >= count, f"{count} messages")
        return self.messages

    def wait_seen(self, count: int = 1) -> NodeSeen:
        """Waits for this many messages in total. The last one must be NodeSeen, and is returned."""
        message = self.wait_messages(count)[count - 1]
        assert isinstance(message, NodeSeen), self.messages
        return message

    def wait_not_watched(self, count: int = 1) -> NotWatched:
        """Waits for this many messages in total. The last one must be NotWatched, and is returned."""
        message = self.wait_messages(count)[count - 1]
        assert isinstance(message, NotWatched), self.messages
        return message

    def wait_last(self, text: str) -> None:
        """Waits until the last message contains this text."""
        self.wait(lambda: self.messages and text in str(self.messages[-1]), text)

    def wait_ended(self) -> int:
        """Waits until the watcher has ended. Returns its exit status."""
        status = self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        return status

    def end(self) -> str:
        """Ends the watcher, if it still runs. Returns its standard error."""
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.wait_ended()
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        self.process.stdin.close()
        with self.process.stderr as errors:
            return errors.read().decode()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._changed:
                    if line == b"\n":
                        self.signs += 1
                    else:
                        self.messages.append(decode_variant(WatcherMessage, parse(line)))
                    self._changed.notify_all()


@contextmanager
def watching(target: ClusterAccess | str, python: str | Path = sys.executable, **limits: float) -> Iterator[Watching]:
    """Runs a watcher. At the end it must still run, and must have written nothing to standard error."""
    watcher = Watching(target, python, limits)
    try:
        yield watcher
        assert watcher.process.poll() is None, "it has ended"
    finally:
        errors = watcher.end()
    assert errors == ""

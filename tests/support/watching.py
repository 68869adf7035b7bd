"""Runs the watcher as the service does, and reads its messages and its file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from capacityd import __version__
from capacityd.model.codec import decode_variant, encode_variant, parse
from capacityd.model.file_codec import from_file
from capacityd.model.messages import WATCHED_NODE, NodeSeen, NotWatched, WatcherMessage
from capacityd.model.watch import WatchedNode
from capacityd.node.watch import Limits
from capacityd.node.watch_target import TargetResult
from tests import ROOT
from tests.support.watch_server import DEADLINE

_START = """
import json, sys
sys.path.insert(0, sys.argv[1])
from capacityd.watcher.main import main
limits = json.loads(sys.argv[2])
if limits:
    from capacityd.node.watch import Limits
sys.exit(main(sys.argv[3:], Limits(**limits) if limits else None))
"""


class Watching:
    """A running watcher. folder: where its file is."""

    def __init__(
        self,
        folder: Path,
        command: Sequence[str | Path],
        limits: Limits | None = None,
        environment: Mapping[str, str] | None = None,
        python: str | Path = sys.executable,
        around: Sequence[str | Path] = (),
    ) -> None:
        """around: the start of a command line that executes the rest, maybe in namespaces."""
        self.messages: list[WatcherMessage] = []
        self._changed = threading.Condition()
        given = json.dumps(asdict(limits) if limits else {})
        self.process = subprocess.Popen(
            [*around, python, "-I", "-c", _START, ROOT / "agent", given, folder, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )
        self.folder = Path(f"/proc/{self.process.pid}/root{folder.resolve()}") if around else folder
        """The folder of the file, as it is outside of the namespaces."""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def node(self) -> WatchedNode | None:
        """The content of watched.json; None if the file does not exist."""
        try:
            return from_file(WatchedNode, (self.folder / WATCHED_NODE).read_bytes(), __version__)
        except (FileNotFoundError, NotADirectoryError):
            return None

    @property
    def resource_version(self) -> str:
        """Of the Node in watched.json; "" if there is none."""
        return self.node.state.resource_version if self.node and self.node.state else ""

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Waits until the condition is true, also for the file."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, f"{what}; messages: {self.messages}; node: {self.node}"
            with self._changed:
                self._changed.wait(0.02)

    def wait_messages(self, count: int) -> list[WatcherMessage]:
        """Waits for this many messages in total, and returns them."""
        self.wait(lambda: len(self.messages) >= count, f"{count} messages")
        return self.messages

    def wait_seen(self, count: int = 1) -> NodeSeen:
        """Waits for the given number of messages in total, of which the last one is NodeSeen, and returns it."""
        message = self.wait_messages(count)[count - 1]
        assert isinstance(message, NodeSeen), self.messages
        return message

    def wait_not_watched(self, count: int = 1) -> str:
        """As wait_seen(), for NotWatched. Returns the reason."""
        message = self.wait_messages(count)[count - 1]
        assert isinstance(message, NotWatched), self.messages
        return message.reason

    def wait_ended(self) -> int:
        """Waits for the end. Returns the exit status."""
        status = self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        return status

    def end(self) -> str:
        """Ends the watcher, if it still runs. Returns its standard error."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.wait_ended()
        assert self.process.stderr is not None
        with self.process.stderr as errors:
            return errors.read().decode()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._changed:
                    self.messages.append(decode_variant(WatcherMessage, parse(line)))
                    self._changed.notify_all()


@contextmanager
def watching(
    folder: Path,
    command: Sequence[str | Path],
    limits: Limits | None = None,
    environment: Mapping[str, str] | None = None,
    python: str | Path = sys.executable,
) -> Iterator[Watching]:
    """A watcher that must write nothing to standard error, and must leave no file."""
    watcher = Watching(folder, command, limits, environment, python)
    try:
        yield watcher
    finally:
        errors = watcher.end()
    assert errors == ""
    assert watcher.node is None


class Target:
    """The result of a worker that the watcher starts: a program that prints the content of a file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "target"
        self._calls = folder / "calls"
        self._calls.touch()
        self.command = ["/bin/sh", "-c", 'echo >> "$1"; cat "$0"', str(self._file), str(self._calls)]

    @property
    def calls(self) -> int:
        """How often the watcher has started the worker."""
        return len(self._calls.read_bytes())

    def set(self, result: TargetResult) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(encode_variant(result)))
        new.replace(self._file)

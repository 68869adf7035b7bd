"""The watcher's main function: it ends with the resident process."""

from __future__ import annotations

import os
import sys

from capacityd.linux.stderr import use_nonblocking_stderr
from capacityd.linux.thread import start_thread
from capacityd.model.watch_target import WatchTarget
from capacityd.watcher.watcher import Watcher

_STDIN = 0  # file descriptor


def main(_arguments: list[str]) -> int:
    """Watches the Node in the line of JSON on standard input, until the resident process ends it, or has ended."""
    use_nonblocking_stderr()
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    start_thread(_end_with_resident_process)
    try:
        Watcher(WatchTarget.from_json(line)).run()
    except BrokenPipeError:  # the resident process has ended
        return 0
    return 1


def _end_with_resident_process() -> None:
    """Ends this process when the resident process has closed the pipe, even if there is nothing to write."""
    while os.read(_STDIN, 1):
        pass
    os._exit(0)

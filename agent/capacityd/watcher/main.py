"""The watcher's main function."""

from __future__ import annotations

import os
import sys
from threading import Thread

from capacityd.linux.stderr import use_nonblocking_stderr
from capacityd.model.cluster_access import ClusterAccess
from capacityd.watcher.watcher import Watcher

_STDIN = 0  # file descriptor


def main(_arguments: list[str]) -> int:
    """Watches the Node until the resident process ends. Standard input has one line, a ClusterAccess as JSON."""
    use_nonblocking_stderr()
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    Thread(target=_end_with_resident_process, daemon=True).start()
    try:
        Watcher(ClusterAccess.from_json(line)).run()
    except BrokenPipeError:  # the resident process has ended
        return 0
    return 1


def _end_with_resident_process() -> None:
    """Ends this process when the resident process closes the pipe, even if there is nothing to write."""
    while os.read(_STDIN, 1):
        pass
    os._exit(0)

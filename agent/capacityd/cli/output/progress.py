"""Tells the user of a terminal what a command does, if it takes more than some seconds."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_FIRST = 2.0  # seconds until the line is shown; below the five seconds after which a user wonders
_EVERY = 1.0  # seconds until it is shown again


@contextmanager
def progress(task: str, *, first: float = _FIRST, every: float = _EVERY) -> Iterator[None]:
    """While the code inside runs, shows the task and its time on standard error, if that is a terminal.

    first: seconds until the line is shown. every: seconds until it is shown again.
    Uses a timer instead of a thread, because the code inside may fork.
    """
    if not sys.stderr.isatty():
        yield
        return
    terminal = sys.stderr.fileno()
    began = time.monotonic()

    def show(*_: object) -> None:
        _write(terminal, f"\r\x1b[K{task} ({time.monotonic() - began:.0f} s)")

    previous = signal.signal(signal.SIGALRM, show)
    signal.setitimer(signal.ITIMER_REAL, first, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
        if time.monotonic() - began >= first:  # the line has been shown
            _write(terminal, "\r\x1b[K")  # removes the line


def _write(terminal: int, text: str) -> None:
    """Writes past the buffer of sys.stderr, which the interrupted code may be using."""
    with suppress(OSError):  # the terminal is gone
        os.write(terminal, text.encode())

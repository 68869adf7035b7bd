"""Tells the user of a terminal what a command does while it reads."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_FIRST = 2.0  # seconds until the line is shown; below the five seconds after which a user wonders
_EVERY = 1.0  # seconds until the line is shown again, with the new time
ERASE_LINE = "\r\x1b[K"  # ECMA-48: to the start of the line, then erase the line


@contextmanager
def progress(task: str, *, first: float = _FIRST, every: float = _EVERY) -> Iterator[None]:
    """Shows the task and its time on standard error, if that is a terminal and the code inside takes long.

    first: seconds until the line is shown. every: seconds until it is shown again.
    Uses a timer instead of a thread, because the code inside may fork.
    """
    if not sys.stderr.isatty():
        yield
        return
    terminal = sys.stderr.fileno()
    began = time.monotonic()

    def show(*_: object) -> None:  # the arguments of a signal handler
        _write(terminal, f"{ERASE_LINE}{task} ({time.monotonic() - began:.0f} s)")

    previous_handler = signal.signal(signal.SIGALRM, show)
    signal.setitimer(signal.ITIMER_REAL, first, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous_handler)
        if time.monotonic() - began >= first:  # the line has been shown
            _write(terminal, ERASE_LINE)


def _write(terminal: int, text: str) -> None:
    """Writes past the buffer of sys.stderr, which the interrupted code may be using."""
    with suppress(OSError):  # the terminal is gone
        os.write(terminal, text.encode())

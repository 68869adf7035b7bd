"""Limits the total time of a step. A socket's own timeout starts again with each byte."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_REPEAT = 1.0
"""Seconds until the alarm is repeated. An alarm during a finalizer (__del__) is lost: Python ignores its exceptions."""


class Late(Exception):
    """A step did not end in time."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises Late if the code in the with block takes longer. Works only in the main thread.

    Name resolution is not interrupted, because getaddrinfo() ignores signals. A resolver has its own time limits.
    """
    signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _raise(*_: object) -> None:
    raise Late

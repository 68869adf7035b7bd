"""Limits the total time of a step. A socket's own timeout starts again with each byte."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_REPEAT = 1.0
"""Seconds after which the alarm is repeated: an exception in a finalizer (__del__) is ignored."""


class Late(Exception):
    """A step did not end in time."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises Late if the code inside takes longer, in the main thread only.

    Name resolution does not end early: getaddrinfo() ignores signals, but its resolver has time limits of its own.
    """
    signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _raise(*_: object) -> None:
    raise Late

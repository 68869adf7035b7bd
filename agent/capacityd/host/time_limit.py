"""Limits the time of calls that may hang in the kernel: reads from broken hardware, or from a server that is down."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import TypeVar

from capacityd.model.errors import HostError

Answer = TypeVar("Answer")

TIMEOUT = 5.0
"""The time limit of a call in seconds. A call takes longer only if hardware or a server does not respond."""


def within_time_limit(subject: str, ask: Callable[[], Answer]) -> Answer:
    """Returns what ask() returns. Raises the HostError that ask() raises.

    Raises HostError with ETIMEDOUT if ask() does not return within TIMEOUT. subject: what ask() reads, for messages.
    """
    results: list[Answer | HostError] = []

    def append_result() -> None:
        try:
            results.append(ask())
        except HostError as e:
            results.append(e)

    # ask() runs in a thread of its own, because a call that hangs in the kernel can't be interrupted.
    thread = threading.Thread(target=append_result, daemon=True)
    try:
        thread.start()
    except RuntimeError as e:
        raise HostError(f"{subject} could not be read: {e}") from e
    thread.join(TIMEOUT)
    if not results:
        raise HostError(f"{subject} did not respond within {TIMEOUT:g} s", errno.ETIMEDOUT)
    result = results[0]
    if isinstance(result, HostError):
        raise result
    return result

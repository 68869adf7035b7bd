"""Limits the total time of an action. The libraries' own timeouts start again with each received byte."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from capacityd.linux.thread import start_thread

T = TypeVar("T")


class DeadlineExceeded(Exception):
    """The action did not end within its time limit, in seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it did not end within {seconds:g} s")
        self.seconds = seconds


def run_within(seconds: float, action: Callable[[], T]) -> T:
    """Returns the action's result or raises its exception. Raises DeadlineExceeded if it does not end in time.

    The action runs in a thread, because getaddrinfo() ignores signals and timeouts. A thread that does not end in time
    is left behind, and does not keep the process alive.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(action())
        except BaseException as e:  # noqa: BLE001  # raised again by the caller's thread
            future.set_exception(e)

    start_thread(run)
    # Not future.result(seconds), because the action may also raise a TimeoutError.
    if not wait([future], timeout=seconds).done:
        raise DeadlineExceeded(seconds)
    return future.result()

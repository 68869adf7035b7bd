"""Runs an action in a child process, because an access to a path may hang if the path's server does not respond."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from typing import NoReturn

_MAX_BYTES = 65536
"""The capacity of a pipe (pipe(7)). The child can write this much without waiting for the reader."""


def text_within(seconds: float, action: Callable[[], str]) -> str | None:
    """Returns the action's text; None if the action did not end in time. The text must not be longer than 64 KiB.

    Raises RuntimeError if the action raised an exception.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run_as_child(action, write_end)
    os.close(write_end)
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        milliseconds = 1000 * seconds
        has_ended = bool(poll.poll(milliseconds))
        if not has_ended:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)  # without waitpid(), because the child may hang for ever
            return None
        _, status = os.waitpid(pid, 0)
        if status != 0:
            raise RuntimeError("the child process failed")
        return os.read(read_end, _MAX_BYTES).decode("utf-8", "surrogateescape")
    finally:
        os.close(pidfd)
        os.close(read_end)


def _run_as_child(action: Callable[[], str], write_end: int) -> NoReturn:
    """Runs the action, writes its text to the pipe, and ends this process."""
    status = 1
    try:
        # A reader of this command's output waits until every process has closed the output. This process may hang, so
        # it closes the output at once.
        dev_null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(dev_null, fd)
        os.write(write_end, action().encode("utf-8", "surrogateescape"))
        status = 0
    finally:
        os._exit(status)

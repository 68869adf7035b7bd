"""Starts threads that receive no signals."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Thread


def start_thread(run: Callable[[], None]) -> None:
    """Runs the function in a thread that does not keep the process alive.

    Python handles signals in the main thread. If the kernel delivered a signal to another thread, the main thread would
    notice it only after its current wait. Source: Signals and threads, docs.python.org/3/library/signal.html.
    """
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        Thread(target=run, daemon=True).start()  # a new thread inherits the blocked signals
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)

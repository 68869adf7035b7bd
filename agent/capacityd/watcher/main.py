"""The watcher's main function: it ends at a signal, and with the resident process."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING

from capacityd.linux.stderr import use_nonblocking_stderr
from capacityd.linux.thread import start_thread
from capacityd.model.messages import NotWatched
from capacityd.model.modules import import_failure
from capacityd.watcher import STDOUT, send_message

if TYPE_CHECKING:
    from capacityd.node.watch import Limits


def main(arguments: list[str], limits: Limits | None = None) -> int:
    """Watches the Node until it cannot be watched, or until the resident process ends. Returns the exit status.

    arguments: the folder for watched.json, and the command of the worker that determines what to watch. limits: None
    for the defaults; shorter in tests.
    """
    use_nonblocking_stderr()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    # SIGHUP does nothing. It has an empty handler, because the worker and the exec plugin would inherit SIG_IGN.
    signal.signal(signal.SIGHUP, lambda *_: None)
    start_thread(_end_with_resident_process)
    folder, *command = arguments
    try:
        _watch(folder, command, limits)
    except BrokenPipeError:  # the resident process has ended
        return 0
    except Exception as e:
        failure = import_failure(e)  # None if the error is not about an import
        if failure is None:
            raise
        send_message(NotWatched(str(failure)))
        return 1
    return 0


def _watch(folder: str, command: list[str], limits: Limits | None) -> None:
    # Imported here, so that main() reports a module that is missing during a system upgrade.
    from capacityd.node.watch import Limits
    from capacityd.watcher.watcher import Watcher

    Watcher(folder, command, limits or Limits()).run()


def _end_with_resident_process() -> None:
    """Ends this process when the resident process has closed the pipe, even if there is nothing to write."""
    poll = select.poll()
    poll.register(STDOUT, 0)  # POLLERR and POLLHUP are always reported
    poll.poll()
    # Repeated, because the handler's SystemExit is ignored if the main thread is just running a finalizer (__del__).
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1.0)

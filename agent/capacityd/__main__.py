"""python3 -m capacityd, and the console script."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from capacityd.cli import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line, by default this process's own, and returns its exit status.

    Does not return if a thread still waits, for a server or for hardware that does not respond: then it ends the
    process.
    """
    status = run(sys.argv[1:] if arguments is None else arguments)
    if threading.active_count() > 1:
        _exit_without_finalization(status)
    return status


def _exit_without_finalization(status: int) -> None:
    """Ends the process while other threads run.

    Before Python 3.14, an interpreter that finalizes ends a thread by unwinding the thread's stack. A library whose
    frames cannot be unwound aborts the process with SIGABRT. From version 36 on, the `kubernetes` client calls such a
    library (pydantic, in Rust).
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main())

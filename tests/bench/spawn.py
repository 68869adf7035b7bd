"""Runs commands in turn, so and so often, and prints what each run took. A process of its own, run by its path.

Of a program that a large process starts, the kernel reports at least the memory of that process as its peak; this one
is about as large as a Python that does nothing. Reads JSON from standard input: commands, environment, rounds, and
terminals, the numbers of the commands that write to one; prints, for each round, for each command, seconds of time and
of processor, peak memory in bytes, exit status.
"""

from __future__ import annotations

import json
import os
import sys
import time


def measured(command: list[str], environment: dict[str, str], terminal: int | None) -> tuple[float, float, int, int]:
    """One run, its children included. terminal: where it writes to; None: nowhere."""
    out = (
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0) if terminal is None else (os.POSIX_SPAWN_DUP2, terminal, 1)
    )
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environment, file_actions=[out])
    _, status, used = os.wait4(pid, 0)
    took = time.perf_counter() - began
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)


def main() -> None:
    asked = json.load(sys.stdin)
    reader, terminal = os.openpty()
    os.set_blocking(reader, False)
    rounds = []
    for _ in range(asked["rounds"]):
        each = []
        for n, command in enumerate(asked["commands"]):
            on_terminal = n in asked["terminals"]
            each.append(measured(command, asked["environment"], terminal if on_terminal else None))
            if on_terminal:
                os.read(reader, 1 << 20)  # a screen fits into the kernel's buffer
        rounds.append(each)
    json.dump(rounds, sys.stdout)


main()

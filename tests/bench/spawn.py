"""Runs commands in turn, so and so often, and tells what each run took. A process of its own, run by its path.

Of a program that a large process starts, the kernel reports at least the memory of that process as its peak; this one
is about as large as a Python that does nothing. Reads JSON from standard input: commands, environment, rounds; prints,
for each round, for each command, seconds of time and of processor, peak memory in bytes, exit status.
"""

from __future__ import annotations

import json
import os
import sys
import time


def measured(command: list[str], environment: dict[str, str]) -> tuple[float, float, int, int]:
    """One run, its children included."""
    null = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environment, file_actions=null)
    _, status, used = os.wait4(pid, 0)
    took = time.perf_counter() - began
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)


def main() -> None:
    asked = json.load(sys.stdin)
    rounds = [[measured(c, asked["environment"]) for c in asked["commands"]] for _ in range(asked["rounds"])]
    json.dump(rounds, sys.stdout)


main()

"""Runs the service's worker again and again and kills it on the way; all is imported already, so it is killed at work.

    python3 -I killer.py AGENT ARGUMENTS...   for each line of standard input: what to do.

start REASON SECONDS POINT: start it for this reason, with clocks that are so many seconds ahead. It kills itself at
this kill point, before or after one of its requests or files; -1: at none. kill: kill it. wait: wait until it ends.
Each is answered by a line: started, ended, or killed and the point.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any


def main(agent: str, arguments: list[str]) -> None:
    sys.path.insert(0, agent)
    import kubernetes.client  # noqa: F401

    from capacityd.cli import run

    pid = 0
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    for order, *options in map(str.split, sys.stdin):
        if order == "start":
            pid = os.fork()
            if pid == 0:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
                reason, seconds, point = options
                _set_clocks(float(seconds))
                _set_kill_point(int(point), writer)
                os._exit(run([*arguments, reason]))
            print("started", flush=True)
            continue
        if order == "kill":
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so it is still its number
        killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        print(f"killed {_point(reader)}".strip() if killed else "ended", flush=True)


def _set_clocks(seconds: float) -> None:
    """As if so many seconds had passed, of the wall clock and since the boot."""
    wall, clock = time.time, time.clock_gettime
    time.time = lambda: wall() + seconds
    time.clock_gettime = lambda which: clock(which) + (seconds if which == time.CLOCK_BOOTTIME else 0.0)


def _set_kill_point(number: int, writer: int) -> None:
    """Kills this process when it is there, and writes to the pipe where it was."""
    from capacityd.node.client import Client

    points = iter(range(number, -1, -1))

    def reach(point: str) -> None:
        if next(points, None) == 0:
            os.write(writer, point.encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def with_points(action: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def act(*arguments: Any) -> Any:
            reach(f"before {name(*arguments)}")
            result = action(*arguments)
            reach(f"after {name(*arguments)}")
            return result

        return act

    os.replace = with_points(os.replace, lambda _, target: os.path.basename(target))
    requests = {"read_node": "get nodes", "patch_node_status": "patch nodes/status", "create_event": "create events"}
    for method, request in requests.items():
        setattr(Client, method, with_points(getattr(Client, method), lambda *_, request=request: request))


def _point(reader: int) -> str:
    try:
        return os.read(reader, 1000).decode()
    except BlockingIOError:
        return ""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

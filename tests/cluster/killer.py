"""Starts and kills workers of the service. All modules are imported beforehand, so that a kill hits a worker's work.

    python3 -I killer.py AGENT FOLDER SELECTION   reads commands from standard input, one on each line.

start REASON SECONDS POINT: start a worker for a pass for this reason, without memory, and with clocks this many seconds
ahead. The worker kills itself at this kill point, before or after a request or the replacing of a file (-1: never).
kill: kill the worker. wait: wait until it ends. The answer to each command is a line: started, ended, or killed and the
kill point.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any


def main(agent: str, folder: str, selection: str) -> None:
    sys.path.insert(0, agent)
    import kubernetes.client  # noqa: F401

    from capacityd.model.codec import decode, parse
    from capacityd.model.messages import JobRequest
    from capacityd.model.options import Selection, WorkerOptions
    from capacityd.model.reasons import Job, PassReason
    from capacityd.worker.main import work

    worker = WorkerOptions(folder, decode(Selection, parse(selection.encode())))
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
                os._exit(work(worker, JobRequest(Job.RECONCILE, frozenset({PassReason(reason)}))))
            print("started", flush=True)
            continue
        if order == "kill":
            os.kill(pid, signal.SIGKILL)  # the worker is not reaped yet, so the pid is still its own
        killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        print(f"killed {_point(reader)}".strip() if killed else "ended", flush=True)


def _set_clocks(seconds: float) -> None:
    """Sets the wall clock and the clock since boot ahead by this many seconds."""
    wall, clock = time.time, time.clock_gettime
    time.time = lambda: wall() + seconds
    time.clock_gettime = lambda which: clock(which) + (seconds if which == time.CLOCK_BOOTTIME else 0.0)


def _set_kill_point(number: int, writer: int) -> None:
    """Makes this process kill itself at this kill point, after writing the name of the point to the pipe."""
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
    main(*sys.argv[1:])

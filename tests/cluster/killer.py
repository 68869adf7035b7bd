"""Starts and kills workers of the service. It imports all modules first, so that a kill never hits a mere import.

    python3 -I killer.py AGENT FOLDER SELECTION

Reads commands, one on each line: start (a worker for a pass, without a memory), kill, and wait (until the worker ends).
Answers each command with a line: started, ended or killed.
"""

from __future__ import annotations

import os
import signal
import sys


def main(agent: str, folder: str, selection: str) -> None:
    sys.path.insert(0, agent)
    import kubernetes.client  # noqa: F401

    from capacityd.model.codec import decode, parse
    from capacityd.model.messages import JobRequest
    from capacityd.model.options import Selection
    from capacityd.model.reasons import Job, PassReason
    from capacityd.worker.main import do_job

    selected = decode(Selection, parse(selection.encode()))
    pid = 0
    for command in map(str.strip, sys.stdin):
        if command == "start":
            pid = os.fork()
            if pid == 0:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
                request = JobRequest(Job.RECONCILE, frozenset({PassReason.TIMER}))
                os._exit(do_job(folder, selected, request))
            print("started", flush=True)
            continue
        if command == "kill":
            os.kill(pid, signal.SIGKILL)  # the worker is not reaped yet, so the pid is still its own
        print("killed" if os.WIFSIGNALED(os.waitpid(pid, 0)[1]) else "ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

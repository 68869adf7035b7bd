"""Runs the service's child again and again and kills it on the way; all is imported already, so it is killed at work.

    python3 -I killer.py AGENT ARGUMENTS...   for each line of standard input: what to do, or a number of seconds.

start: start it. kill: kill it. wait: wait until it ends. A number: all of this, and kill it after so many seconds.
Each is answered by a line: started, killed or ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time


def main(agent: str, arguments: list[str]) -> None:
    sys.path.insert(0, agent)
    import kubernetes.client  # noqa: F401

    from capacityd.cli import run

    pid = 0
    for line in map(str.strip, sys.stdin):
        if line not in ("kill", "wait"):
            pid = os.fork()
            if pid == 0:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
                os._exit(run(arguments))
        if line == "start":
            print("started", flush=True)
            continue
        if line not in ("kill", "wait"):
            time.sleep(float(line))
        if line != "wait":
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so it is still its number
        print("killed" if os.WIFSIGNALED(os.waitpid(pid, 0)[1]) else "ended", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

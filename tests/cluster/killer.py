"""Runs the service's child again and again and kills it on the way; all is imported already, so it is killed at work.

    python3 -I killer.py AGENT ARGUMENTS...   for each line of standard input: seconds after which it is killed.

Each is answered by a line: killed or ended.
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

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os._exit(run(arguments))
        time.sleep(float(line))
        os.kill(pid, signal.SIGKILL)  # not reaped yet, so it is still its number
        print("killed" if os.WIFSIGNALED(os.waitpid(pid, 0)[1]) else "ended", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

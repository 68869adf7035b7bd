"""Starts a process of the service with its clocks set by a file: "WALL SUSPENDED", seconds added to the wall clock and
seconds that the machine was suspended for. The real ones can't be had: setting the clock or suspending would concern
the whole machine.

    python3 -I doubles.py CLOCK AGENT service.main FOLDER KUBECONFIG...   the resident process, whose children are:
    python3 -I doubles.py CLOCK AGENT __main__ ARGUMENTS...
"""

from __future__ import annotations

import importlib
import sys
import time


def pretend(file: str) -> None:
    """Offsets the clocks of this process by what the file has at that moment."""
    wall, clock = time.time, time.clock_gettime

    def offsets() -> list[float]:
        with open(file) as f:
            return [float(word) for word in f.read().split()]

    time.time = lambda: wall() + offsets()[0]
    time.clock_gettime = lambda which: clock(which) + (offsets()[1] if which == time.CLOCK_BOOTTIME else 0.0)


if __name__ == "__main__":
    clock_file, agent, module, *arguments = sys.argv[1:]
    sys.path.insert(0, agent)
    pretend(clock_file)
    sys.exit(importlib.import_module(f"capacityd.{module}").main(arguments))

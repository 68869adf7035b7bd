"""Checks which commands, in their own namespaces, lead to an event of a kernel event source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.support.forked import run_alone

PROGRAM = """
import json, select, subprocess, sys
from capacityd.model.reasons import KernelEvents
from capacityd.service.kernel_events import PROC_FILES, NetlinkEvents, ProcFileEvents
kind = KernelEvents(sys.argv[1])
source = ProcFileEvents(PROC_FILES[kind]) if kind in PROC_FILES else NetlinkEvents([kind])
poll = select.poll()
poll.register(source.fileno(), select.POLLIN)
received = []
for step in sys.argv[2:]:  # "+COMMAND" must lead to an event, "-COMMAND" must not
    wanted, command = step[0] == "+", step[1:]
    process, reasons = subprocess.Popen(["sh", "-ec", command]), set()
    assert process.wait() == 0
    # The kernel sends most events before the command ends, but that of an IPv6 address a moment later.
    while poll.poll(10_000 if wanted and not reasons else 0):
        reasons |= source.drain()
    received.append(len(reasons))
source.close()
print(json.dumps(received))
"""


def check_events(source: str, setup: str, steps: Mapping[str, bool], program: str = PROGRAM) -> None:
    """Runs each command. Fails unless exactly the commands with the value True lead to an event of this source."""
    marked = [f"{'+' if wakes else '-'}{step}" for step, wakes in steps.items()]
    received: list[Any] = json.loads(run_alone(setup, program, source, *marked))
    assert dict(zip(steps, received, strict=True)) == {step: int(wakes) for step, wakes in steps.items()}

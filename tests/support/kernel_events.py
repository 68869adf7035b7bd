"""Checks which commands, run in their own namespaces, wake an event source of the kernel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.support.forked import run_alone

PROGRAM = """
import json, select, subprocess, sys
from capacityd.service.event_sources import _KERNEL
source = _KERNEL[sys.argv[1]]()
poll = select.poll()
poll.register(source.fileno(), select.POLLIN)
received = []
for step in sys.argv[2:]:
    wanted, command = step[0] == "+", step[1:]
    subprocess.run(["sh", "-ec", command], check=True)
    reasons = set()
    # The kernel sends most events before the command ends, but that of an IPv6 address a moment later.
    while poll.poll(10_000 if wanted and not reasons else 0):
        reasons |= source.drain()
    received.append(sorted(reasons))
source.close()
print(json.dumps(received))
"""


def check_events(source: str, setup: str, steps: Mapping[str, bool]) -> None:
    """Fails unless exactly the commands that are marked True start a pass."""
    document: list[Any] = json.loads(run_alone(setup, PROGRAM, source, *_marked(steps)))
    assert dict(zip(steps, document, strict=True)) == {step: ["hardware"] * wakes for step, wakes in steps.items()}


def _marked(steps: Mapping[str, bool]) -> list[str]:
    return [f"{'+' if wakes else '-'}{step}" for step, wakes in steps.items()]

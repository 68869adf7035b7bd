"""Whether commands in namespaces of their own wake an event source of the kernel."""

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
said = []
for step in sys.argv[2:]:
    wanted, command = step[0] == "+", step[1:]
    subprocess.run(["sh", "-ec", command], check=True)
    reasons = set()
    # The kernel tells of most before the command ends, but of an IPv6 address a moment later.
    while poll.poll(10_000 if wanted and not reasons else 0):
        reasons |= source.drain()
    said.append(sorted(reasons))
source.close()
print(json.dumps(said))
"""


def hears(source: str, setup: str, steps: Mapping[str, bool]) -> None:
    """Whether each command is a reason to look again."""
    found: list[Any] = json.loads(run_alone(setup, PROGRAM, source, *_marked(steps)))
    assert dict(zip(steps, found, strict=True)) == {step: ["hardware"] * wakes for step, wakes in steps.items()}


def _marked(steps: Mapping[str, bool]) -> list[str]:
    return [f"{'+' if wakes else '-'}{step}" for step, wakes in steps.items()]

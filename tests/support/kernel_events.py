"""Checks which commands, run in their own namespaces, wake an event source of the kernel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from capacityd.model.codec import encode
from capacityd.model.event_filters import ALL_EVENTS, EventFilters
from tests.support.forked import run_alone

PROGRAM = """
import json, select, subprocess, sys
from capacityd.model.codec import decode
from capacityd.model.event_filters import EventFilters
from capacityd.service.event_sources import _OPENERS
source = _OPENERS[sys.argv[1]](decode(EventFilters, json.loads(sys.argv[2])))
poll = select.poll()
poll.register(source.fileno(), select.POLLIN)
received = []
for step in sys.argv[3:]:
    wanted, command = step[0] == "+", step[1:]
    process, reasons = subprocess.Popen(["sh", "-ec", command]), set()
    while step[0] == "~" and process.poll() is None:  # as the service does, so that the queue does not overflow
        if poll.poll(10):
            reasons |= source.drain()
    assert process.wait() == 0
    # The kernel sends most events before the command ends, but that of an IPv6 address a moment later.
    while poll.poll(10_000 if wanted and not reasons else 0):
        reasons |= source.drain()
    received.append(sorted(reasons))
source.close()
print(json.dumps(received))
"""


def check_events(
    source: str, setup: str, steps: Mapping[str, bool], filters: EventFilters = ALL_EVENTS, *, many: bool = False
) -> None:
    """Fails unless exactly the commands that are marked True start a pass.

    filters: of the configuration. many: whether the commands cause so many events that they must be read meanwhile.
    """
    document: list[Any] = json.loads(
        run_alone(setup, PROGRAM, source, written(filters), *_marked(steps, "~" if many else "-"))
    )
    assert dict(zip(steps, document, strict=True)) == {step: [source] * wakes for step, wakes in steps.items()}


def written(filters: EventFilters) -> str:
    """The argument of PROGRAM."""
    return json.dumps(encode(filters))


def _marked(steps: Mapping[str, bool], silent: str) -> list[str]:
    return [f"{'+' if wakes else silent}{step}" for step, wakes in steps.items()]

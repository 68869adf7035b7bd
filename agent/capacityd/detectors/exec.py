"""exec: the whole number that a program prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from capacityd.model.device import ValueDetector
from capacityd.model.errors import Cause, HostError, ProgramFailed
from capacityd.model.host import Host
from capacityd.model.private import Private, extent, quoted, shortened
from capacityd.model.quantity import whole_number
from capacityd.model.reading import Contribution
from capacityd.model.setting_types import Command, Duration, Setting
from capacityd.model.text import printable


def read(host: Host, settings: Mapping[str, object]) -> Contribution:
    """The number that the program prints. Raises HostError if the exit status is not 0 or the output is not one
    number."""
    try:
        return _read(host, settings)
    except HostError as e:
        if e.cause is Cause.NOT_TRUSTED:
            raise
        advice = host.sandbox_advice(cast(tuple[str, ...], settings["command"]), runs=True)
        raise HostError(f"{e}{advice}", e.errno, e.cause, detail=e.detail.text) from e


def _read(host: Host, settings: Mapping[str, object]) -> Contribution:
    command = cast(tuple[str, ...], settings["command"])
    output = host.run(command, cast(float, settings["timeout"]))
    name = command[0]
    error = f"standard error: {quoted(output.err)}" if output.err else ""
    length = f"; standard error: {extent(output.err)}" if output.err else ""
    if output.status:
        end = f"exited with status {output.status}" if output.status > 0 else f"was killed by signal {-output.status}"
        end += " (out of memory?)" if output.status == -9 else ""
        raise ProgramFailed(f"{name} {end}{length or '; no standard error'}", detail=error)
    try:
        number, said = whole_number(output.out), Private(shortened(output.err))
    except ValueError as e:
        detail = "; ".join(filter(None, (f"it printed {quoted(output.out)}", error)))
        raise ProgramFailed(f"{name} printed: {e}{length}", detail=detail) from e
    return Contribution(printable(" ".join(command)), number, detail=said)


DETECTOR = ValueDetector(
    name="exec",
    about="the whole number that a program prints; probe --explain shows its standard error",
    settings={
        "command": Setting(Command(), "the program and its arguments, no shell", required=True),
        "timeout": Setting(Duration(0.1, 300), "how long it may run", default="10s"),
    },
    read=read,
    spawns=True,
)

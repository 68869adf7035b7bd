"""exec: the whole number that a program prints."""

from __future__ import annotations

from collections.abc import Mapping
from signal import SIGKILL
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
        raise HostError(f"{e}{advice}", errno=e.errno, cause=e.cause, detail=e.detail.text) from e


def _read(host: Host, settings: Mapping[str, object]) -> Contribution:
    command = cast(tuple[str, ...], settings["command"])
    output = host.run(command, cast(float, settings["timeout"]))
    program = command[0]
    # A public message contains only the length of the program's output. The text is in the private detail.
    error_text = f"standard error: {quoted(output.err)}" if output.err else ""
    error_length = f"standard error: {extent(output.err)}" if output.err else "no standard error"
    if output.status:
        raise ProgramFailed(f"{program} {_end(output.status)}; {error_length}", detail=error_text)
    try:
        number = whole_number(output.out)
    except ValueError as e:
        length = f"; {error_length}" if output.err else ""
        detail = f"it printed {quoted(output.out)}"
        if error_text:
            detail += f"; {error_text}"
        raise ProgramFailed(f"{program} printed: {e}{length}", detail=detail) from e
    return Contribution(printable(" ".join(command)), number, detail=Private(shortened(output.err)))


def _end(status: int) -> str:
    """How a program ended. status: as in Output, but not 0."""
    if status > 0:
        return f"exited with status {status}"
    signal_number = -status
    hint = " (out of memory?)" if signal_number == SIGKILL else ""
    return f"was killed by signal {signal_number}{hint}"


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

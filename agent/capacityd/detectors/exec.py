"""exec: the whole number that a program prints."""

from __future__ import annotations

from collections.abc import Mapping
from signal import SIGKILL
from typing import cast

from capacityd.model.errors import Cause, HostError, ProgramFailed
from capacityd.model.host import Host, Output
from capacityd.model.quantity import parse_whole_number
from capacityd.model.quoting import length_text, quoted, shortened
from capacityd.model.reading import Contribution
from capacityd.model.text import printable
from capacityd.schema.device import ValueDetector
from capacityd.schema.setting_types import COMMAND, Setting, duration


def read(host: Host, settings: Mapping[str, object]) -> Contribution:
    """The number that the program prints. Raises HostError if the exit status is not 0 or the output is not one
    number."""
    command = cast(tuple[str, ...], settings["command"])
    timeout = cast(float, settings["timeout"])
    program_failed = False
    try:
        output = host.run(command, timeout=timeout)
        program_failed = True  # an error from here on means that the program failed
        number = _printed_number(command[0], output)
    except HostError as e:
        if e.cause is Cause.NOT_TRUSTED:  # capacityd did not run the program, so the sandbox is not the reason
            raise
        advice = host.sandbox_advice(command, program_failed=program_failed)  # "" outside the service's sandbox
        raise e.with_message(f"{e}{advice}") from e
    return Contribution(device=printable(" ".join(command)), amount=number, detail=shortened(output.err))


def _printed_number(program: str, output: Output) -> int:
    """The number that the program printed. Raises ProgramFailed."""
    if output.status:
        raise _failure(f"{program} {_how_it_ended(output.status)}", output)
    try:
        return parse_whole_number(output.out)
    except ValueError as e:
        raise _failure(f"{program} printed no number: {e}", output) from e


def _failure(problem: str, output: Output) -> ProgramFailed:
    """The error of a program that has failed.

    Anybody may read the error's message, so it contains only the length of the output. The detail contains the output.
    """
    # Some programs, such as nvidia-smi, print their errors to standard output.
    texts = {"standard output": output.out, "standard error": output.err}
    lengths = [f"{name}: {length_text(text)}" for name, text in texts.items() if text]
    quotes = [f"{name}: {quoted(text)}" for name, text in texts.items() if text]
    if not lengths:
        return ProgramFailed(f"{problem}; no output")
    return ProgramFailed("; ".join([problem, *lengths]), detail="; ".join(quotes))


def _how_it_ended(status: int) -> str:
    """How a program ended. status: a positive exit status, or the negated number of the signal that killed it."""
    if status > 0:
        return f"exited with status {status}"
    signal_number = -status
    hint = " (out of memory?)" if signal_number == SIGKILL else ""
    return f"was killed by signal {signal_number}{hint}"


DETECTOR = ValueDetector(
    name="exec",
    about="the whole number that a program prints; probe --explain shows its standard error",
    settings={
        "command": Setting(COMMAND, "the program and its arguments, no shell", required=True),
        "timeout": Setting(duration(least="100ms", most="5min"), "how long the program may run", default="10s"),
    },
    read=read,
)

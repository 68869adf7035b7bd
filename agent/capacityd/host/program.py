"""Runs another program without a shell, in a small environment, and with limits of time and output. Leaves no process
behind."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence

from capacityd.linux.program import OutputTooLargeError, ProgramTimeoutError, run_program
from capacityd.linux.program_start import read_first_line, why_not_executable, why_not_started
from capacityd.linux.subreaper import become_subreaper, kill_children
from capacityd.linux.trust import flaw_of_command, trust_of_current_user
from capacityd.model.errors import Cause, HostError, ProgramFailed
from capacityd.model.host import Output
from capacityd.model.quoting import quoted
from capacityd.model.text import printable

_MAX_OUTPUT_BYTES = 65536
_SECONDS_TO_KILL = 1.0
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def run_trusted(command: Sequence[str], timeout: float) -> Output:
    """Runs a program that the configuration names. Raises the errors of run().

    Raises HostError with the cause NOT_TRUSTED if a file that the program runs could be changed by a user other than
    root and this process's own.
    """
    program = command[0]
    _require_executable(program)
    if flaw := flaw_of_command(command, trust_of_current_user()):
        raise HostError(f"{program} is not run, because {flaw}", cause=Cause.NOT_TRUSTED)
    status, out, err = run(command, timeout)
    return Output(status, out=printable(out.strip()), err=printable(err.strip()))


def run(command: Sequence[str], timeout: float, max_output: int = _MAX_OUTPUT_BYTES) -> tuple[int, bytes, bytes]:
    """Runs a program for at most timeout seconds. Afterwards, kills all children of this process.

    Returns the exit status (if negative, the signal that killed the program), standard output and standard error.
    Raises HostError if the program can't be started, does not end in time, or writes more than max_output bytes.
    """
    program = command[0]
    become_subreaper()
    try:
        return run_program(command, timeout, environment=_ENVIRONMENT, max_output=max_output)
    except ProgramTimeoutError:
        raise HostError(f"{program} did not end within {timeout:g} s", cause=Cause.TIMEOUT) from None
    except OutputTooLargeError as e:
        raise ProgramFailed(f"{program} wrote more than {max_output} bytes to {e}") from None
    except OSError as e:
        problem = f"{program} could not be started"
        if why := why_not_started(program, e.errno):  # the reason is in the beginning of the file
            raise ProgramFailed(f"{problem}: {why}", e.errno, detail=_beginning(program)) from e
        raise ProgramFailed(f"{problem}: {os.strerror(e.errno or 0)}", e.errno) from e
    except subprocess.SubprocessError as e:
        raise ProgramFailed(f"{program} could not be started: {type(e).__name__}") from e
    finally:
        # The processes that the program left behind are children of this process, because it is a subreaper.
        kill_children(deadline=time.monotonic() + _SECONDS_TO_KILL)


def _beginning(program: str) -> str:
    """A script's first line, as the detail of an error; "" if the program can't be read, or is binary."""
    try:
        line = read_first_line(program).strip()
    except OSError:
        return ""
    return f"it begins with {quoted(printable(line))}" if line.startswith(b"#") else ""


def _require_executable(program: str) -> None:
    """Raises ProgramFailed if the program can't be run."""
    try:
        why = why_not_executable(program)
    except OSError as e:
        # The configuration's command is a list of strings. A name with a space is probably a whole command line.
        hint = "; write each argument as a string of its own, without a shell's pipes" if " " in program else ""
        raise ProgramFailed(f"{program} can't be run: {os.strerror(e.errno or 0)}{hint}", e.errno) from e
    if why:
        raise ProgramFailed(f"{program} {why}")

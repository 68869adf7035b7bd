"""Runs a command of a program: prepares the standard streams, prints an error for the user, returns the exit status."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol

from capacityd.model.errors import CapacitydError
from capacityd.model.modules import import_failure
from capacityd.model.text import printable


class ParsedOptions(Protocol):
    """The options on a command line."""

    @property
    def command(self) -> str:
        """The name of the command."""


def run_program(package: str, modules: Mapping[str, str], parse: Callable[[], ParsedOptions]) -> int:
    """Runs a command and returns its exit status. If the command raises an error for the user, prints the error.

    package: the package with the commands' modules. Each module has a function with the command's name.
    modules: command -> its module, only for commands whose module has another name.
    parse: parses the command line. Raises SystemExit for --help and for usage errors.
    """
    _open_standard_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a test may have replaced it by another stream
        sys.stdout.reconfigure(errors="backslashreplace")  # some locales cannot encode "→"
    try:
        options = parse()
        module_name = modules.get(options.command, options.command)
        module = import_module(f"{package}.{module_name}")
        command = getattr(module, options.command)
        status: int = command(options)
        sys.stdout.flush()  # so that an error in writing is reported here
        return status
    except CapacitydError as e:
        return _error_status(e)
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as a shell reports it
    except Exception as e:  # an error without a known cause is raised again
        failure = import_failure(e)
        if failure is not None:  # a Python module is missing or damaged
            return _error_status(failure)
        if isinstance(e, OSError):
            return _output_error_status(e)
        raise


def _error_status(error: CapacitydError) -> int:
    """Prints the error and returns its exit status."""
    for line in str(error).split("\n"):
        print("capacityd:", printable(line), file=sys.stderr)
    return error.exit_status


def _open_standard_streams() -> None:
    """Opens /dev/null for each closed stream (>&-). Otherwise, the next file that is opened would get the stream's
    descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # Python's value for a closed stream
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # open until the process ends


def _output_error_status(error: OSError) -> int:
    """Returns the exit status if standard output can't be written. Raises the error again if it has another cause."""
    try:
        print(flush=True)  # fails again if standard output is the cause
    except OSError:
        # Python flushes standard output at exit, and would report the same error again.
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 141  # 128 + SIGPIPE, as a shell reports it
        print(f"capacityd: could not write standard output: {os.strerror(error.errno or 0)}", file=sys.stderr)
        return 1
    raise error

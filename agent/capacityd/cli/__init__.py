"""The command line. Only this package prints: results to standard output, everything else to standard error."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from capacityd.cli.options import options_of
from capacityd.cli.parser import COMMANDS, INTERNAL_COMMANDS, command_parser
from capacityd.linux.stderr import stderr_is_journal
from capacityd.model.errors import CapacitydError, UsageError
from capacityd.model.modules import NOT_INSTALLED, import_failure, require_service_modules
from capacityd.model.text import printable


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status."""
    _open_standard_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a test may have replaced it by another stream
        sys.stdout.reconfigure(errors="backslashreplace")  # some locales cannot encode "→"
    command: str | None = None  # None: the arguments are not parsed yet
    try:
        parsed = _parse(arguments)
        command = parsed.command
        _refuse_unused_context_option(parsed)
        return _run_command(parsed)
    except CapacitydError as e:
        for line in str(e).split("\n"):
            print("capacityd:", printable(line), file=sys.stderr)
        if e.detail and not stderr_is_journal():  # a detail may quote a private file, and others may read the journal
            print("capacityd:", printable(e.detail.text), file=sys.stderr)
        return e.exit_status
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as a shell reports it
    except Exception as e:  # raised again unless it has a known cause
        if failure := import_failure(e):  # a Python module is missing or damaged
            print("capacityd:", printable(str(failure)), file=sys.stderr)
            # systemd does not restart the service after NOT_INSTALLED.
            return NOT_INSTALLED if command == "run" else failure.exit_status
        if isinstance(e, OSError):
            return _output_error_status(e)
        raise


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parses the command line. --help and --version raise SystemExit after their output is written."""
    try:
        return command_parser().parse_args(arguments)
    finally:
        sys.stdout.flush()


def _refuse_unused_context_option(parsed: argparse.Namespace) -> None:
    """Raises UsageError for --context, which may stand before any command, if the command does not use it."""
    if parsed.context is not None and parsed.command not in ("fleet", "template"):
        raise UsageError(
            "--context selects a cluster for fleet and template --nodes; "
            f"{parsed.command} uses the current context of its kubeconfig"
        )


def _run_command(parsed: argparse.Namespace) -> int:
    """Imports the command's module, calls the function with the command's name, and returns the exit status."""
    name = parsed.command
    if name == "run":
        require_service_modules()  # raises ModuleMissing
    module = INTERNAL_COMMANDS[name] if name in INTERNAL_COMMANDS else COMMANDS[name][0]
    command = getattr(import_module(f"capacityd.{module}"), name)
    status: int = command(options_of(parsed))
    sys.stdout.flush()  # so that an error in writing is reported here
    return status


def _open_standard_streams() -> None:
    """Opens /dev/null for each closed stream (>&-). Otherwise, the next file that is opened would get the stream's
    descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # as Python sets it for a closed descriptor
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # open until the process ends


def _output_error_status(error: OSError) -> int:
    """Returns the exit status if standard output can't be written. Raises the error if it has another cause."""
    try:
        print(flush=True)  # fails again if standard output is the cause
    except OSError:
        # Python flushes at exit, and would report the same error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 141  # 128 + SIGPIPE, as a shell reports it
        print(f"capacityd: could not write standard output: {os.strerror(error.errno or 0)}", file=sys.stderr)
        return 1
    raise error

"""The command line. Only this package prints: results to standard output, everything else to standard error."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module

from capacityd.cli.options import options_of
from capacityd.cli.parser import COMMANDS, LEFTOVER, command_parser
from capacityd.cli.program import run_command
from capacityd.model.modules import require_service_modules


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status."""
    return run_command(partial(_run, arguments))


def _run(arguments: Sequence[str]) -> int:
    """Imports the command's module, calls the function with the command's name, and returns the exit status."""
    options = options_of(command_parser().parse_args(arguments))
    name = options.command
    if name == "run":
        require_service_modules()
    module = f"cli.commands.{LEFTOVER}" if name == LEFTOVER else COMMANDS[name][0]
    command = getattr(import_module(f"capacityd.{module}"), name)
    status: int = command(options)
    return status

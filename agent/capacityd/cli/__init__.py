"""The command line. Only this package prints: results to standard output, everything else to standard error."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from importlib import import_module

from capacityd.cli.options import options_of
from capacityd.cli.parser import COMMANDS, INTERNAL_COMMANDS, command_parser
from capacityd.cli.program import run_command
from capacityd.model.modules import require_service_modules


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status."""
    return run_command(partial(_run, arguments))


def _run(arguments: Sequence[str]) -> int:
    parsed = command_parser().parse_args(arguments)
    if parsed.command == "run":
        require_service_modules()
    return _run_parsed(parsed)


def _run_parsed(parsed: argparse.Namespace) -> int:
    """Imports the command's module, calls the function with the command's name, and returns the exit status."""
    name = parsed.command
    module = INTERNAL_COMMANDS[name] if name in INTERNAL_COMMANDS else COMMANDS[name][0]
    command = getattr(import_module(f"capacityd.{module}"), name)
    status: int = command(options_of(parsed))
    return status

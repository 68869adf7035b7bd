"""Runs one command."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module

from capacityd.cli.program import run_command
from kubectl_capacityd.options import options_of
from kubectl_capacityd.parser import command_parser


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status."""
    return run_command(partial(_run, arguments))


def _run(arguments: Sequence[str]) -> int:
    """Imports the command's module, calls the function with the command's name, and returns the exit status."""
    options = options_of(command_parser().parse_args(arguments))
    command = getattr(import_module(f"kubectl_capacityd.commands.{options.command}"), options.command)
    status: int = command(options)
    return status

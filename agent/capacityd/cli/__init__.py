"""The command line. Only this package prints: results to standard output, everything else to standard error."""

from __future__ import annotations

from collections.abc import Sequence

from capacityd.cli.options import Options, options_of
from capacityd.cli.parser import MODULES, command_parser
from capacityd.cli.program import run_program


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status."""

    def parse() -> Options:
        return options_of(command_parser().parse_args(arguments))

    return run_program("capacityd.cli.commands", MODULES, parse)

"""The program kubectl-capacityd, which kubectl runs for `kubectl capacityd`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from capacityd.cli.program import run_program
from kubectl_capacityd.options import ClusterOptions, options_of
from kubectl_capacityd.parser import command_parser


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status."""

    def parse() -> ClusterOptions:
        return options_of(command_parser().parse_args(arguments))

    return run_program("kubectl_capacityd.commands", {}, parse)


def main() -> int:
    """Runs this process's command line, and returns its exit status."""
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

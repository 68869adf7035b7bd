"""A parser of arguments that suggests the nearest command and the nearest option."""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches
from typing import Any, NoReturn


class ArgumentParser(argparse.ArgumentParser):
    """The parser of a program or a command. Messages do not name commands without a help text."""

    def __init__(self, **options: Any) -> None:
        """options: as in argparse. An abbreviated option is an error."""
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parses as argparse does. If an unknown option is similar to a known option, ends the program with an error
        that suggests the known option.

        argparse calls this method of the program's parser, and of the command's parser. Each suggests its own options.
        """
        parsed, unknown = super().parse_known_args(args, namespace)
        for argument in unknown:
            option = argument.partition("=")[0]
            if near := get_close_matches(option, self._option_string_actions, n=1):
                self.error(f'unrecognized arguments: {" ".join(unknown)}; did you mean "{near[0]}"?')
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: str) -> None:
        """Checks a value as argparse does. For an unknown command, suggests the nearest command."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            commands = [command.dest for command in action._choices_actions]
            near = get_close_matches(value, commands, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"must be one of {', '.join(commands)}"
            raise argparse.ArgumentError(None, f'unknown command "{value}"; {hint}')
        super()._check_value(action, value)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Ends the program, as argparse does. Raises OSError if the output of --help or --version can't be written."""
        sys.stdout.flush()
        super().exit(status, message)

"""A parser of arguments that suggests the nearest command and the nearest option."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, NoReturn


class ArgumentParser(argparse.ArgumentParser):
    """The parser of a program or a command. Messages name only commands that have a help text."""

    def __init__(self, *, make_epilog: Callable[[], str] = str, **options: Any) -> None:
        """An abbreviated option on the command line is an error.

        make_epilog: returns the text below the options. Called only for --help. options: parameters of
        argparse.ArgumentParser.
        """
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self._make_epilog = make_epilog

    def format_help(self) -> str:
        """The text of --help."""
        self.epilog = self._make_epilog()
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parses as argparse does. Ends the program with an error about an unknown argument, which suggests the nearest
        option.

        argparse calls this method of the program's parser, and of the command's parser. Each parser suggests its own
        options.
        """
        has_commands = self._subparsers is not None
        first = args[0] if args else ""
        is_unknown_option = first.startswith("-") and first not in self._option_string_actions
        if has_commands and is_unknown_option:  # argparse would take the option's value for the command
            self.error(f"unrecognized arguments: {first}; the options of a command stand after the command")
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            first_option, _, _ = unknown[0].partition("=")
            hint = _suggestion(first_option, self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return parsed, []

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Converts a value as argparse does. Refuses an empty value of an option: a shell variable may be unset."""
        may_be_empty = not action.option_strings or action.default == ""
        if not arg_string and not may_be_empty:
            raise argparse.ArgumentError(action, "the value is empty; is a variable unset?")
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: str) -> None:
        """Checks a value as argparse does. For an unknown command, suggests the nearest command."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            commands = [command.dest for command in action._choices_actions]
            hint = _suggestion(value, commands) or f"; must be one of {', '.join(commands)}"
            raise argparse.ArgumentError(None, f'unknown command "{value}"{hint}')
        super()._check_value(action, value)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Ends the program, as argparse does. Raises OSError if the output of --help or --version can't be written."""
        sys.stdout.flush()
        super().exit(status, message)


def _suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the known word that was probably meant; "" if none is similar."""
    nearest = get_close_matches(word, known, n=1)
    return f'; did you mean "{nearest[0]}"?' if nearest else ""

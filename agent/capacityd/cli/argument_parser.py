"""A parser of arguments that suggests the nearest command and the nearest option."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, NoReturn


class ArgumentParser(argparse.ArgumentParser):
    """The parser of a program or a command. Messages name only commands that have a help text."""

    def __init__(self, *, make_epilog: Callable[[], str] | None = None, **parameters: Any) -> None:
        """An abbreviated option on the command line is an error.

        make_epilog: returns the text below the options. Called only for --help. None: there is no such text.
        parameters: those of argparse.ArgumentParser.
        """
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **parameters)
        self._make_epilog = make_epilog

    def format_help(self) -> str:
        """The text of --help."""
        if self._make_epilog is not None:
            self.epilog = self._make_epilog()
        return super().format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parses as argparse does. An unknown argument ends the program with an error that suggests the nearest option.

        argparse calls this method of the program's parser, and of the command's parser. Each parser suggests its own
        options.
        """
        has_commands = self._subparsers is not None
        first_argument = args[0] if args else ""
        is_unknown_option = first_argument.startswith("-") and first_argument not in self._option_string_actions
        if has_commands and is_unknown_option:  # argparse would take the option's value for the command
            self.error(f"unrecognized arguments: {first_argument}; the options of a command stand after the command")
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            first_option, _, _ = unknown[0].partition("=")
            hint = _suggestion(first_option, self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return parsed, []

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Converts a value as argparse does. Refuses an empty value of an option: a shell variable may be unset."""
        is_option = bool(action.option_strings)
        is_empty_by_default = action.default == ""
        if arg_string == "" and is_option and not is_empty_by_default:
            raise argparse.ArgumentError(action, "the value is empty; is a variable unset?")
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: str) -> None:
        """Checks a value as argparse does. For an unknown command, suggests the nearest command."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            commands = [listed_command.dest for listed_command in action._choices_actions]  # those with a help text
            hint = _suggestion(value, commands)
            if not hint:
                hint = f"; must be one of {', '.join(commands)}"
            raise argparse.ArgumentError(None, f'unknown command "{value}"{hint}')
        super()._check_value(action, value)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Ends the program, as argparse does. Raises OSError if the output of --help or --version can't be written."""
        sys.stdout.flush()
        super().exit(status, message)


def _suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the known word that was probably meant; "" if none is similar."""
    similar = get_close_matches(word, known, n=1)
    if not similar:
        return ""
    return f'; did you mean "{similar[0]}"?'

"""A parser of arguments that suggests the nearest command and the nearest option."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn


class ArgumentParser(argparse.ArgumentParser):
    """The parser of a program or a command. Messages name only commands that have a help text."""

    def __init__(self, **options: Any) -> None:
        """options: parameters of argparse.ArgumentParser. An abbreviated option on the command line is an error."""
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parses as argparse does. Ends the program with an error about an unknown argument, which suggests the nearest
        option.

        argparse calls this method of the program's parser, and of the command's parser. Each parser suggests its own
        options.
        """
        if self._subparsers is not None:
            self._refuse_unknown_before_command(args)
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hints = [hint for argument in unknown if (hint := self._nearest(argument))]
            self.error("; ".join([f"unrecognized arguments: {' '.join(unknown)}", *hints[:1]]))
        return parsed, []

    def _refuse_unknown_before_command(self, arguments: Sequence[str]) -> None:
        """Ends the program with an error about an unknown option before the command. argparse would take the option's
        value for the command."""
        words = iter(arguments)
        for word in words:
            option, has_value, _ = word.partition("=")
            if not option.startswith("-"):
                return  # the command
            known = self._option_string_actions.get(option)
            if known is None:
                hint = self._nearest(option) or "the options of a command stand after the command"
                self.error(f"unrecognized arguments: {option}; {hint}")
            if known.dest in ("help", "version"):
                return  # these options end the program
            if known.nargs != 0 and not has_value:
                next(words, "")

    def _nearest(self, argument: str) -> str:
        """The end of a message about an unknown argument: the option that was probably meant; "" if none is similar."""
        near = get_close_matches(argument.partition("=")[0], self._option_string_actions, n=1)
        return f'did you mean "{near[0]}"?' if near else ""

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
            near = get_close_matches(value, commands, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"must be one of {', '.join(commands)}"
            raise argparse.ArgumentError(None, f'unknown command "{value}"; {hint}')
        super()._check_value(action, value)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Ends the program, as argparse does. Raises OSError if the output of --help or --version can't be written."""
        sys.stdout.flush()
        super().exit(status, message)

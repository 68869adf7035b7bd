"""Completion of `kubectl capacityd`: kubectl runs kubectl_complete-capacityd with the words on the command line.

The output follows cobra's protocol: one word a line, with its description after a tab, then a directive to the shell.
https://github.com/spf13/cobra/blob/main/site/content/completions/_index.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from capacityd.cli.parser import command_parser
from capacityd.detectors import load, names
from capacityd.model.device import DeviceDetector

FILES = ("FILE", "PATH")
"""The metavars of arguments that are paths of files."""

_COMPLETE_FILES = 0
_NO_FILES = 4


def main() -> int:
    """Prints the words that may follow. Returns the exit status."""
    words, directive = complete(sys.argv[1:])
    print(*words, f":{directive}", sep="\n")
    return 0


def complete(typed: Sequence[str]) -> tuple[list[str], int]:
    """Returns the words that can replace the last one, and cobra's directive. typed: without "kubectl capacityd"."""
    *before, last = typed or [""]
    parser = command_parser()
    pending: argparse.Action | None = None  # the option whose value comes next
    arguments = 0
    for word in before:
        if pending:
            pending = None
        elif word.startswith("-"):
            option = parser._option_string_actions.get(word)
            pending = option if option and option.nargs != 0 else None
        elif command := _commands(parser).get(word):
            parser = command
        else:
            arguments += 1
    if not pending and last.startswith("-"):
        offered = list(_options(parser))
    elif not pending and _commands(parser):
        offered = list(_described_commands(parser))
    else:
        action = pending or _argument(parser, arguments)
        if action and action.metavar in FILES:
            return [], _COMPLETE_FILES
        offered = values(action) if action else []
    return [word for word in offered if word.startswith(last)], _NO_FILES


def values(action: argparse.Action) -> list[str]:
    """Returns the values of an argument or option; empty if they are not known."""
    if action.metavar == "DETECTOR":
        return [name for name in names() if isinstance(load(name), DeviceDetector)]
    return [str(choice) for choice in action.choices or ()]


def _argument(parser: argparse.ArgumentParser, number: int) -> argparse.Action | None:
    """Returns the positional argument with this number, from 0. The last argument may take several words."""
    positional = [action for action in parser._actions if not action.option_strings]
    if positional and positional[-1].nargs == "*":
        number = min(number, len(positional) - 1)
    return positional[number] if number < len(positional) else None


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {name: command for action in _subparsers(parser) for name, command in action.choices.items()}


def _described_commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    return (f"{listed.dest}\t{listed.help}" for action in _subparsers(parser) for listed in action._choices_actions)


def _subparsers(
    parser: argparse.ArgumentParser,
) -> list[argparse._SubParsersAction[argparse.ArgumentParser]]:
    return [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (f"{option}\t{action.help}" for option in action.option_strings)

"""Completion of `kubectl capacityd`: kubectl runs kubectl_complete-capacityd with the words on the command line.

The output follows cobra's protocol: one word a line, with its description after a tab, then a directive to the shell.
https://github.com/spf13/cobra/blob/main/site/content/completions/_index.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from capacityd.model.errors import NodeError
from kubectl_capacityd.cluster.operator_kubeconfig import context_names
from kubectl_capacityd.parser import COMMANDS, command_parser

CONTEXT = "CONTEXT"
"""The metavar, in parser.py, of a context of the user's kubeconfig."""
FILES = ("FILE", "PATH")
"""The metavars of arguments that are paths of files."""

# Directives of cobra to the shell.
_COMPLETE_FILES = 0  # ShellCompDirectiveDefault
_NO_FILES = 4  # ShellCompDirectiveNoFileComp


@dataclass(slots=True)
class _Position:
    """Where on the command line the next word is, after the words that have been read."""

    parser: argparse.ArgumentParser
    """The parser of the command; before the command, that of the program."""
    option: argparse.Action | None = None
    """The option whose value is the next word; None: the next word is no option's value."""
    arguments_read: int = 0
    """Number of the command's positional arguments so far."""
    kubeconfig: str | None = None
    """The value of --kubeconfig."""


def main() -> int:
    """Prints the words that may follow. Returns the exit status."""
    words, directive = complete(sys.argv[1:])
    print(*words, f":{directive}", sep="\n")
    return 0


def complete(typed: Sequence[str]) -> tuple[list[str], int]:
    """Returns the words that can replace the last one, and cobra's directive. typed: without "kubectl capacityd"."""
    *before, last = typed or [""]
    program = command_parser()
    position = _position_after(before, program)
    offered: Sequence[str]
    if position.option is None and last.startswith("-"):
        offered = _options(position.parser)
    elif position.option is None and position.parser is program:
        offered = [f"{name}\t{about}" for name, about in COMMANDS.items()]
    else:
        action = position.option or _argument(position.parser, number=position.arguments_read)
        if action is None:
            offered = []
        elif action.metavar in FILES:
            return [], _COMPLETE_FILES
        elif action.metavar == CONTEXT:
            offered = _contexts(position.kubeconfig)
        else:
            offered = [str(choice) for choice in action.choices or ()]
    return [word for word in offered if word.startswith(last)], _NO_FILES


def _position_after(words: Sequence[str], program: argparse.ArgumentParser) -> _Position:
    """The position after these words. program: the parser of the program."""
    (subparsers,) = (action for action in program._actions if isinstance(action, argparse._SubParsersAction))
    parser_by_command = subparsers.choices
    position = _Position(program)
    for word in words:
        if position.option is not None:
            if position.option.dest == "kubeconfig":
                position.kubeconfig = word
            position.option = None
        elif word.startswith("--kubeconfig="):
            position.kubeconfig = word.partition("=")[2]
        elif word.startswith("-"):
            option = position.parser._option_string_actions.get(word)
            if option is not None and option.nargs != 0:  # a flag has nargs=0: no value follows
                position.option = option
        elif position.parser is program and word in parser_by_command:
            position.parser = parser_by_command[word]
        else:
            position.arguments_read += 1
    return position


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [f"{option}\t{action.help}" for action in parser._actions for option in action.option_strings]


def _contexts(kubeconfig: str | None) -> list[str]:
    """Returns the contexts of the user's kubeconfig; empty if it can't be read."""
    try:
        return context_names(kubeconfig)
    except NodeError:
        return []


def _argument(parser: argparse.ArgumentParser, number: int) -> argparse.Action | None:
    """Returns the positional argument with this number, from 0; None if there is none."""
    positional = [action for action in parser._actions if not action.option_strings]
    if positional and positional[-1].nargs == "*":  # the last argument takes all further words
        number = min(number, len(positional) - 1)
    return positional[number] if number < len(positional) else None

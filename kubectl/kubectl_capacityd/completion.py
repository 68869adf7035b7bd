"""Completion of `kubectl capacityd`: kubectl runs kubectl_complete-capacityd with the words on the command line.

The output follows cobra's protocol: one word a line, with its description after a tab, then a directive to the shell.
https://github.com/spf13/cobra/blob/main/site/content/completions/_index.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

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


def main() -> int:
    """Prints the words that may follow. Returns the exit status."""
    words, directive = complete(sys.argv[1:])
    print(*words, f":{directive}", sep="\n")
    return 0


def complete(typed: Sequence[str]) -> tuple[list[str], int]:
    """Returns the words that can replace the last word, and cobra's directive.

    typed: the words after "kubectl capacityd".
    """
    *before, last = typed or [""]
    program = command_parser()
    (subparsers,) = (action for action in program._actions if isinstance(action, argparse._SubParsersAction))
    parser = program  # before the command, the parser of the program
    option: argparse.Action | None = None  # the option whose value is the next word
    arguments_read = 0  # number of the command's positional arguments so far
    kubeconfig: str | None = None
    for word in before:
        if option is not None:
            kubeconfig = word if option.dest == "kubeconfig" else kubeconfig
            option = None
        elif word.startswith("--kubeconfig="):
            kubeconfig = word.partition("=")[2]
        elif word.startswith("-"):
            named = parser._option_string_actions.get(word)
            option = named if named is not None and named.nargs != 0 else None  # nargs=0: a flag, no value follows
        elif parser is program and word in subparsers.choices:
            parser = subparsers.choices[word]
        else:
            arguments_read += 1
    offered: Sequence[str]
    if option is None and last.startswith("-"):
        offered = _options(parser)
    elif option is None and parser is program:
        offered = [f"{name}\t{about}" for name, about in COMMANDS.items()]
    else:
        action = option or _argument(parser, number=arguments_read)
        if action is not None and action.metavar in FILES:
            return [], _COMPLETE_FILES
        offered = _values(action, kubeconfig)
    return [word for word in offered if word.startswith(last)], _NO_FILES


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [f"{option}\t{action.help}" for action in parser._actions for option in action.option_strings]


def _values(action: argparse.Action | None, kubeconfig: str | None) -> list[str]:
    """Returns the values of an option or argument; empty if any text is valid, or if no argument may follow."""
    if action is not None and action.metavar == CONTEXT:
        return _contexts(kubeconfig)
    return [str(choice) for choice in action.choices or ()] if action is not None else []


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

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
    *before, last = typed or [""]  # without a typed word, the last word is empty
    parser = _parser_of(before[0]) if before else None
    option = _option_with_value(parser, before[-1]) if parser else None
    offered: list[str] = []
    if not before:
        offered = [f"{name}\t{about}" for name, about in COMMANDS.items()]
    elif option is not None and option.metavar in FILES:
        return [], _COMPLETE_FILES
    elif option is not None and option.metavar == CONTEXT:
        offered = _contexts(before)
    elif option is None and parser is not None:
        offered = _options(parser) if last.startswith("-") else _choices_of_argument(parser, before)
    return [word for word in offered if word.startswith(last)], _NO_FILES


def _parser_of(command: str) -> argparse.ArgumentParser | None:
    """The parser of a command; None if there is no such command."""
    for action in command_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            parser: argparse.ArgumentParser | None = action.choices.get(command)
            return parser
    return None


def _option_with_value(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    """The option that the word names and whose value follows; None for a flag, and for any other word."""
    option = parser._option_string_actions.get(word)
    is_flag = option is not None and option.nargs == 0
    return None if is_flag else option


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [f"{option}\t{action.help}" for action in parser._actions for option in action.option_strings]


def _choices_of_argument(parser: argparse.ArgumentParser, before: Sequence[str]) -> list[str]:
    """The values of the command's argument; empty if one of them is already typed, or if any text is valid."""
    for action in parser._actions:
        choices = list(action.choices or ())
        is_typed = any(choice in before for choice in choices)
        if choices and not is_typed:
            return choices
    return []


def _contexts(before: Sequence[str]) -> list[str]:
    """The contexts of the user's kubeconfig, which --kubeconfig may name; empty if it can't be read."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--kubeconfig")
    options, _others = parser.parse_known_args(before)
    try:
        return context_names(options.kubeconfig)
    except NodeError:
        return []

"""Completion of `kubectl capacityd`: kubectl runs kubectl_complete-capacityd with the words on the command line.

The output follows cobra's protocol: one word a line, with its description after a tab, then a directive to the shell.
https://github.com/spf13/cobra/blob/main/site/content/completions/_index.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from capacityd.cli.parser import COMMANDS, command_parser
from capacityd.detectors import load, names
from capacityd.model.device import DeviceDetector
from capacityd.model.errors import NodeError
from capacityd.node.operator_kubeconfig import context_names

CONTEXT = "CONTEXT"
"""The metavar, in cli/parser.py, of a context of the user's kubeconfig."""
FILES = ("FILE", "PATH")
"""The metavars of arguments that are paths of files."""

# Directives of cobra: ShellCompDirectiveDefault, ShellCompDirectiveNoFileComp.
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
    program = command_parser()
    parser = program  # from the command on, that of the command
    # Its choices are the commands' parsers, by name.
    (commands,) = (action for action in program._actions if isinstance(action, argparse._SubParsersAction))
    pending: argparse.Action | None = None  # the option whose value comes next
    kubeconfig: str | None = None
    arguments = 0  # number of the command's positional arguments so far
    for word in before:
        if pending:
            if pending.dest == "kubeconfig":
                kubeconfig = word
            pending = None
        elif word.startswith("--kubeconfig="):
            kubeconfig = word.partition("=")[2]
        elif word.startswith("-"):
            option = parser._option_string_actions.get(word)
            takes_value = option is not None and option.nargs != 0
            pending = option if takes_value else None
        elif parser is program and word in commands.choices:
            parser = commands.choices[word]
        else:
            arguments += 1
    if not pending and last.startswith("-"):
        offered = [f"{option}\t{action.help}" for action in parser._actions for option in action.option_strings]
    elif not pending and parser is program:
        offered = [f"{name}\t{about}" for name, (_module, about) in COMMANDS.items()]
    else:
        action = pending or _argument(parser, number=arguments)
        if action is not None and action.metavar in FILES:
            return [], _COMPLETE_FILES
        offered = _offered_values(action, kubeconfig)
    return [word for word in offered if word.startswith(last)], _NO_FILES


def _offered_values(action: argparse.Action | None, kubeconfig: str | None) -> list[str]:
    if action is None:
        return []
    if action.metavar == CONTEXT:
        return _contexts(kubeconfig)
    return values(action)


def values(action: argparse.Action) -> list[str]:
    """Returns the values of an argument or option; empty if they are not known."""
    if action.metavar == "DETECTOR":
        return [name for name in names() if isinstance(load(name), DeviceDetector)]
    return [str(choice) for choice in action.choices or ()]


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

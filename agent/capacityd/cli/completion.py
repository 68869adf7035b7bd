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
"""The metavar of a context of the user's kubeconfig."""
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
    program = parser = command_parser()
    (commands,) = (action for action in program._actions if isinstance(action, argparse._SubParsersAction))
    pending: argparse.Action | None = None  # the option whose value comes next
    kubeconfig: str | None = None
    arguments = 0
    for word in before:
        if pending:
            kubeconfig = word if pending.dest == "kubeconfig" else kubeconfig
            pending = None
        elif word.startswith("--kubeconfig="):
            kubeconfig = word.partition("=")[2]
        elif word.startswith("-"):
            option = parser._option_string_actions.get(word)
            pending = option if option and option.nargs != 0 else None
        elif parser is program and word in commands.choices:
            parser = commands.choices[word]
        else:
            arguments += 1
    if not pending and last.startswith("-"):
        offered = [f"{option}\t{action.help}" for action in parser._actions for option in action.option_strings]
    elif not pending and parser is program:
        offered = [f"{name}\t{about}" for name, (_, about) in COMMANDS.items()]
    else:
        action = pending or _argument(parser, arguments)
        if action and action.metavar in FILES:
            return [], _COMPLETE_FILES
        is_context = action is not None and action.metavar == CONTEXT
        offered = _contexts(kubeconfig) if is_context else values(action) if action else []
    return [word for word in offered if word.startswith(last)], _NO_FILES


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
    """Returns the positional argument with this number, from 0. The last argument may take several words."""
    positional = [action for action in parser._actions if not action.option_strings]
    if positional and positional[-1].nargs == "*":
        number = min(number, len(positional) - 1)
    return positional[number] if number < len(positional) else None

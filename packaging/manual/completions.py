"""Generates shell completions from the command-line parser: with shtab."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import shtab

from capacityd.cli.parser import command_parser
from capacityd.detectors import detector_names, load_detector
from capacityd.schema.device import DeviceDetector

_FILES = ("FILE", "PATH")
"""The metavars, in cli/parser.py, of arguments that are paths of files."""

# With shtab 1.5.5 (Debian 12), bash offers only the first of several words. shtab 1.7.1 has no such bug.
_FIXES = (
    ('"${current_action}_choices"', '"${current_action}_choices[@]"'),
    ('"${current_action_choices}"', "\"${current_action_choices// /$'\\n'}\""),
)


def completion(shell: str) -> str:
    """Returns the completion for bash or zsh."""
    parser = command_parser()
    for action in _actions(parser):
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar == "DETECTOR":
            action.choices = [name for name in detector_names() if isinstance(load_detector(name), DeviceDetector)]
    text = str(shtab.complete(parser, shell)) + "\n"
    for wrong, right in _FIXES:
        text = text.replace(wrong, right)
    return text


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)

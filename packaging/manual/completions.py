"""Generates shell completions from the command-line parser: with shtab for bash and zsh, and here for fish."""

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
    """Returns the completion for bash, fish or zsh."""
    parser = command_parser()
    for action in _actions(parser):
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar == "DETECTOR":
            action.choices = [name for name in detector_names() if isinstance(load_detector(name), DeviceDetector)]
    if shell == "fish":
        return "\n".join(["complete -c capacityd -f", *_fish(parser, "", frozenset())]) + "\n"
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


def _fish(parser: argparse.ArgumentParser, condition: str, known: frozenset[str]) -> Iterator[str]:
    """Yields lines for fish. condition: when fish uses the lines. known: options that fish offers for every command."""
    options = frozenset(option for action in parser._actions for option in action.option_strings)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from _fish_commands(action, condition, known | options)
        elif not action.option_strings:
            if values := _fish_values(action, "-F", ""):
                yield _fish_line(condition, values, None)
        elif known.isdisjoint(action.option_strings):
            flags = " ".join(f"-l {o[2:]}" if o.startswith("--") else f"-s {o[1:]}" for o in action.option_strings)
            yield _fish_line(condition, f"{flags} {_fish_values(action, '-r -F', '-x')}", action.help)


def _fish_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], condition: str, known: frozenset[str]
) -> Iterator[str]:
    seen = "__fish_seen_subcommand_from"
    none = f"not {seen} {' '.join(commands.choices)}"
    for listed in commands._choices_actions:
        yield _fish_line(_both(condition, none), f"-a {listed.dest}", listed.help)
        yield from _fish(commands.choices[listed.dest], _both(condition, f"{seen} {listed.dest}"), known)


def _fish_values(action: argparse.Action, file: str, other: str) -> str:
    """Returns the options of fish's `complete` for an action's values. file, other: for files, and for other values."""
    if action.nargs == 0:
        return ""
    if action.metavar in _FILES:
        return file
    words = f"-a {_quoted(' '.join(map(str, action.choices)))}" if action.choices else ""
    return f"{other} {words}".strip()


def _fish_line(condition: str, options: str, help_text: str | None) -> str:
    when = f" -n {_quoted(condition)}" if condition else ""
    return f"complete -c capacityd{when} {options.strip()}{f' -d {_quoted(help_text)}' if help_text else ''}"


def _both(first: str, second: str) -> str:
    return f"{first}; and {second}" if first else second


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

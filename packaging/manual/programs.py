"""The sections about the commands, options and exit statuses of both programs, from their command-line parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from markdown import code, escaped, terms

from capacityd.cli.help import COMMAND_STATUSES, EXAMPLES, SIGNS, STATUSES
from capacityd.cli.parser import SHARED, command_parser
from kubectl_capacityd import help as kubectl_help
from kubectl_capacityd import parser as kubectl_parser


class Program(NamedTuple):
    """What the pages say about a program."""

    name: str
    parser: argparse.ArgumentParser
    examples: Mapping[str, Sequence[tuple[str, str]]]
    signs: Mapping[str, str]
    statuses: Mapping[int, str]
    command_statuses: Mapping[str, Mapping[int, str]]
    """Command -> the exit statuses whose meaning is another one."""
    shared: Mapping[str, Mapping[str, Any]]
    """The options that several commands have: option -> parameters of argparse's add_argument()."""


AGENT = Program("capacityd", command_parser(), EXAMPLES, SIGNS, STATUSES, COMMAND_STATUSES, SHARED)
KUBECTL = Program(
    kubectl_parser.PROGRAM,
    kubectl_parser.command_parser(),
    kubectl_help.EXAMPLES,
    kubectl_help.SIGNS,
    kubectl_help.STATUSES,
    {},
    kubectl_parser.SHARED,
)


def commands(program: Program) -> Iterator[str]:
    """The parts of the section about the program's commands."""
    parser = program.parser
    shared_names = {action.dest for action in _shared_options(program)}
    sub = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for listed in sub._choices_actions:
        name, about = listed.dest, listed.help or ""
        usable = [action for action in sub.choices[name]._actions if action.dest != "help"]
        own = [action for action in usable if action.dest not in shared_names]
        shared = [action for action in usable if action.dest in shared_names]
        yield f"### {name}"
        yield f"`{' '.join([program.name, name, *map(_usage, (*own, *shared))])}`"
        yield escaped(f"{about[0].upper()}{about[1:]}.")
        if own:
            yield terms((_written(action), action.help or "") for action in own)
        if name in program.signs:
            yield escaped(f"Signs: {program.signs[name]}.")
        if name in program.command_statuses:
            yield "Exit status:"
            yield statuses(program.command_statuses[name])
        yield code("text", "\n".join(f"# {why}\n$ {line}" for line, why in program.examples[name]))


def options(program: Program) -> Iterator[str]:
    """The parts of the section about the options that several commands have."""
    yield "After the command, as its line shows:"
    yield terms((_written(action), action.help or "") for action in _shared_options(program))


def _shared_options(program: Program) -> list[argparse.Action]:
    parser = argparse.ArgumentParser()
    return [parser.add_argument(option, **parameters) for option, parameters in program.shared.items()]


def _written(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else ""
    return ", ".join(f"{option} {value}".rstrip() for option in action.option_strings) or value


def _usage(action: argparse.Action) -> str:
    if action.nargs == "*":
        return f"[{_written(action)} ...]"
    return _written(action) if action.required else f"[{_written(action)}]"


def statuses(meanings: Mapping[int, str]) -> str:
    """The list of exit statuses with their meanings."""
    return terms((str(status), meaning) for status, meaning in meanings.items())

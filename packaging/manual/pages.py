"""Generates the reference and the manual pages from the command-line parser and the declared keys and detectors.

keys.py generates the sections on the configuration.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

import records
import troubles
import words
from json_fields import FIELDS, FIELDS_OF_KUBECTL, Field
from keys import detectors, resources, settings, values
from markdown import code, escaped, for_man, page, terms

from capacityd import __version__
from capacityd.cli.help import COMMAND_STATUSES, EXAMPLES, SIGNS, STATUSES
from capacityd.cli.parser import SHARED, command_parser
from kubectl_capacityd import help as kubectl_help
from kubectl_capacityd import parser as kubectl_parser

ROOT = Path(__file__).resolve().parents[2]


class _Program(NamedTuple):
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


_AGENT = _Program("capacityd", command_parser(), EXAMPLES, SIGNS, STATUSES, COMMAND_STATUSES, SHARED)
_KUBECTL = _Program(
    kubectl_parser.PROGRAM,
    kubectl_parser.command_parser(),
    kubectl_help.EXAMPLES,
    kubectl_help.SIGNS,
    kubectl_help.STATUSES,
    {},
    kubectl_parser.SHARED,
)
_OUTPUT = (
    "Results go to standard output, everything else to standard error. In a table `-` stands for an empty cell, so "
    "that awk finds the columns. With `--json` most commands print one object; the page json.md of the documentation "
    "lists its fields."
)


def reference() -> str:
    """Returns docs/reference.md."""
    return page(
        "# Reference",
        "Generated from the programs by `make docs`: do not edit. The manual pages capacityd(8), capacityd.toml(5) and "
        "kubectl-capacityd(1) have the same content about the configuration and the commands.",
        "## Configuration",
        terms(words.FILES[:4]),
        *map(escaped, words.MERGING),
        "### Resources",
        *resources(),
        "### Settings",
        *settings(),
        "### Values",
        *values(),
        "## Detectors",
        *detectors(),
        "## Commands",
        *_commands(_AGENT),
        "### Options",
        *_options(_AGENT),
        "## Exit status",
        _statuses(STATUSES),
        "## kubectl capacityd",
        words.KUBECTL,
        *_commands(_KUBECTL),
        "### Options of kubectl capacityd",
        *_options(_KUBECTL),
        "### Exit status of kubectl capacityd",
        _statuses(_KUBECTL.statuses),
        "## Condition reasons",
        *troubles.condition_reasons(),
        "## Waits",
        *troubles.waits(),
        "## Findings of fleet",
        *troubles.findings(),
        "## Alerts",
        *troubles.alerts(),
        "## Metrics",
        *records.metrics_of_nodes(),
        *records.metrics_of_fleet(),
        "## Journal entries",
        *records.entries(),
        "## JSON",
        "With `--json` most commands print one JSON object. [json.md](json.md) lists its fields.",
        "## Files and environment",
        terms([*words.FILES[4:], *words.ENVIRONMENT, *words.KUBECTL_ENVIRONMENT]),
    )


def json_output() -> str:
    """Returns docs/json.md."""
    return page(
        "# JSON output",
        "Generated from the programs by `make docs`: do not edit. With `--json` these commands print one JSON object. "
        "[Upgrading](operations.md#what-the-version-number-covers) says what stays compatible.",
        "`list[].name` is a field of each object in a list. Times are in seconds since 1970. New fields may be added "
        "at any time; ignore fields that you do not know.",
        *_json_tables(FIELDS, "## {}"),
        *_json_tables(FIELDS_OF_KUBECTL, f"## {_KUBECTL.name} {{}}"),
    )


def manual() -> str:
    """Returns the page capacityd(8)."""
    return for_man(
        f'# capacityd 8 "" "capacityd {__version__}"',
        "## NAME",
        "capacityd - publish a machine's static hardware as Kubernetes extended resources",
        "## SYNOPSIS",
        "`capacityd` COMMAND [OPTION]...",
        "## DESCRIPTION",
        *map(escaped, words.ABOUT),
        "## COMMANDS",
        *_commands(_AGENT),
        "## OPTIONS",
        *_options(_AGENT),
        "## EXIT STATUS",
        _statuses(STATUSES),
        "## OUTPUT",
        _OUTPUT,
        "## FILES",
        terms(words.FILES),
        "## ENVIRONMENT",
        terms(words.ENVIRONMENT),
        "## SEE ALSO",
        "capacityd.toml(5), kubectl-capacityd(1), systemctl(1), journalctl(1)",
    )


def manual_of_kubectl() -> str:
    """Returns the page kubectl-capacityd(1)."""
    return for_man(
        f'# kubectl-capacityd 1 "" "capacityd {__version__}"',
        "## NAME",
        "kubectl-capacityd - show what capacityd publishes on the Nodes of a cluster",
        "## SYNOPSIS",
        "`kubectl capacityd` COMMAND [OPTION]...",
        "## DESCRIPTION",
        words.KUBECTL,
        "## COMMANDS",
        *_commands(_KUBECTL),
        "## OPTIONS",
        *_options(_KUBECTL),
        "## EXIT STATUS",
        _statuses(_KUBECTL.statuses),
        "## OUTPUT",
        _OUTPUT,
        "## ENVIRONMENT",
        terms([*words.COLOUR, *words.KUBECTL_ENVIRONMENT]),
        "## SEE ALSO",
        "kubectl(1), capacityd(8), capacityd.toml(5)",
    )


def manual_of_files() -> str:
    """Returns the page capacityd.toml(5)."""
    examples = (path.read_text().partition("\n")[2] for path in sorted((ROOT / "conf/examples").glob("*.toml")))
    return for_man(
        f'# capacityd.toml 5 "" "capacityd {__version__}"',
        "## NAME",
        "capacityd.toml - configuration of the resources that capacityd publishes",
        "## SYNOPSIS",
        *(f"`{path}`" for path, _ in words.FILES[:4]),
        "## DESCRIPTION",
        *map(escaped, words.MERGING),
        "## RESOURCES",
        *resources(),
        "## SETTINGS",
        *settings(),
        "## DETECTORS",
        *detectors(),
        "## VALUES",
        *values(),
        "## EXAMPLES",
        *(code("toml", _narrow(example)) for example in examples),
        "## SEE ALSO",
        "capacityd(8)",
    )


def _narrow(example: str) -> str:
    """Returns an example with comments that fit into 80 columns below man's indentation."""
    lines = example.split("\n")
    wrapped = (wrap(line, 64, subsequent_indent="# ") if line.startswith("# ") else [line] for line in lines)
    return "\n".join(line for part in wrapped for line in part)


def _commands(program: _Program) -> Iterator[str]:
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
            yield _statuses(program.command_statuses[name])
        yield code("text", "\n".join(f"# {why}\n$ {line}" for line, why in program.examples[name]))


def _json_tables(tables: Mapping[str, Sequence[Field]], heading: str) -> Iterator[str]:
    for command, fields in tables.items():
        yield heading.format(command)
        rows = (f"| {_names(field.names)} | {field.type} | {escaped(field.meaning)} |" for field in fields)
        yield "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def _names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def _options(program: _Program) -> Iterator[str]:
    yield "After the command, as its line shows:"
    yield terms((_written(action), action.help or "") for action in _shared_options(program))


def _shared_options(program: _Program) -> list[argparse.Action]:
    parser = argparse.ArgumentParser()
    return [parser.add_argument(option, **parameters) for option, parameters in program.shared.items()]


def _written(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else ""
    return ", ".join(f"{option} {value}".rstrip() for option in action.option_strings) or value


def _usage(action: argparse.Action) -> str:
    if action.nargs == "*":
        return f"[{_written(action)} ...]"
    return _written(action) if action.required else f"[{_written(action)}]"


def _statuses(statuses: Mapping[int, str]) -> str:
    return terms((str(status), meaning) for status, meaning in statuses.items())

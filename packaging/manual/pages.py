"""Generates the reference and the manual pages from the command-line parser and the declared keys and detectors.

keys.py generates the sections on the configuration, programs.py those on the commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap

import records
import troubles
import words
from json_fields import FIELDS, FIELDS_OF_KUBECTL, Field
from keys import detectors, resources, settings, values
from markdown import code, escaped, for_man, page, terms
from programs import AGENT, KUBECTL, commands, options, statuses

from capacityd import __version__
from capacityd.cli.help import STATUSES

ROOT = Path(__file__).resolve().parents[2]
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
        *commands(AGENT),
        "### Options",
        *options(AGENT),
        "## Exit status",
        statuses(STATUSES),
        "## kubectl capacityd",
        words.KUBECTL,
        *commands(KUBECTL),
        "### Options of kubectl capacityd",
        *options(KUBECTL),
        "### Exit status of kubectl capacityd",
        statuses(KUBECTL.statuses),
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
        *_json_tables(FIELDS_OF_KUBECTL, f"## {KUBECTL.name} {{}}"),
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
        *commands(AGENT),
        "## OPTIONS",
        *options(AGENT),
        "## EXIT STATUS",
        statuses(STATUSES),
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
        *commands(KUBECTL),
        "## OPTIONS",
        *options(KUBECTL),
        "## EXIT STATUS",
        statuses(KUBECTL.statuses),
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


def _json_tables(tables: Mapping[str, Sequence[Field]], heading: str) -> Iterator[str]:
    for command, fields in tables.items():
        yield heading.format(command)
        rows = (f"| {_names(field.names)} | {field.type} | {escaped(field.meaning)} |" for field in fields)
        yield "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def _names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))

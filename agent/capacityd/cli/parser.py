"""The command-line parser: the commands and their options."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

from capacityd import __version__
from capacityd.cli.argument_parser import ArgumentParser
from capacityd.cli.help import command_epilog, program_epilog

COMMANDS = {
    "devices": "list this machine's devices, each with the TOML that matches it",
    "probe": "read the configured resources on this machine",
    "plan": "show what apply would change on the Node, and why; write nothing",
    "apply": "probe, plan, and write the changes to the Node",
    "withdraw": "remove everything that capacityd has published from the Node",
    "run": "run the service: publish at start, and when the hardware or the Node changes",
    "record": "save this machine's hardware to a file for --machine",
    "status": "show the service's state, its last readings and its errors",
    "config": "check the configuration, or show the merged result",
}
"""Command -> description."""

MODULES = {"plan": "publish", "apply": "publish", "withdraw": "publish"}
"""Command -> its module in cli/commands, for commands that share a module."""

LEFTOVER = "leftover"
"""A command for the Debian package, which --help does not list."""

SHARED: dict[str, dict[str, Any]] = {
    "--config": {
        "metavar": "PATH",
        "help": "read this configuration file or folder instead of the default ones",
    },
    "--machine": {"metavar": "FILE", "help": "read a recording (see record) instead of this machine"},
    "--node-file": {
        "metavar": "FILE",
        "help": "read the Node from a JSON file instead of the API server; - is standard input",
    },
    "--kubeconfig": {"metavar": "FILE", "help": "use this kubeconfig instead of the kubelet's"},
    "--node-name": {"metavar": "NAME", "help": "name of the Node, if capacityd cannot determine it"},
    "--json": {"action": "store_true", "help": "print JSON"},
}
"""Option that several commands have -> its declaration."""

_SHARED_EXCEPT_JSON = tuple(option for option in SHARED if option != "--json")
_SHARED_BY_COMMAND = {
    "devices": ("--machine", "--json"),
    "probe": tuple(SHARED),
    "plan": tuple(SHARED),
    "apply": tuple(SHARED),
    "withdraw": tuple(SHARED),
    "run": _SHARED_EXCEPT_JSON,
    "record": ("--machine",),
    "status": ("--json",),
    "config": ("--config", "--kubeconfig", "--json"),
    LEFTOVER: ("--config", "--kubeconfig"),
}
"""Command -> the options that it shares with others."""


def command_parser() -> argparse.ArgumentParser:
    """Returns the parser. The manual and the shell completions are generated from it as well."""
    parser = ArgumentParser(
        prog="capacityd",
        description="Publishes this machine's static hardware as extended resources of its own\nKubernetes Node.",
        make_epilog=program_epilog,
    )
    parser.add_argument("--version", action="version", version=f"capacityd {__version__}")
    commands = parser.add_subparsers(
        title="commands", prog="capacityd", dest="command", required=True, metavar="COMMAND"
    )
    subparsers = {
        name: commands.add_parser(name, help=about, description=about, make_epilog=partial(command_epilog, name))
        for name, about in COMMANDS.items()
    }
    subparsers[LEFTOVER] = commands.add_parser(LEFTOVER)  # without help=, --help does not list it
    # A command prints only one format, so the options for formats exclude each other.
    format_groups = {name: subparsers[name].add_mutually_exclusive_group() for name in ("devices", "plan")}
    format_groups["devices"].add_argument("--toml", action="store_true", help="print a commented starter configuration")
    format_groups["plan"].add_argument(
        "--patch", action="store_true", help="print the patch instead, for kubectl patch"
    )
    _add_options_of_one_command(subparsers)
    for name, options in _SHARED_BY_COMMAND.items():
        for option in options:
            parent: argparse._ActionsContainer = subparsers[name]
            if option == "--json" and name in format_groups:
                parent = format_groups[name]
            parent.add_argument(option, **SHARED[option])
    return parser


def _add_options_of_one_command(subparsers: Mapping[str, argparse.ArgumentParser]) -> None:
    """Adds the options that only one command has."""
    subparsers["devices"].add_argument(
        "detector", nargs="?", metavar="DETECTOR", help="list only the devices of this detector"
    )
    probe = subparsers["probe"]
    probe.add_argument("--explain", action="store_true", help="show for each device why it counts or does not")
    probe.add_argument(
        "--as-service", action="store_true", help="run in the service's sandbox, to get the same result as the service"
    )
    subparsers["withdraw"].add_argument("--dry-run", action="store_true", help="show what would be removed")
    record = subparsers["record"]
    record.add_argument(
        "file",
        metavar="FILE",
        help="file to write; compressed with gzip if its name ends with .gz; - is standard output",
    )
    record.add_argument("--force", action="store_true", help="replace an existing file")
    record.add_argument(
        "--keep-serials", action="store_true", help="keep serial numbers, MAC and IP addresses and the host name"
    )
    subparsers["config"].add_argument(
        "task",
        metavar="check|show",
        choices=["check", "show"],
        help="check: list all errors; show: the merged result",
    )

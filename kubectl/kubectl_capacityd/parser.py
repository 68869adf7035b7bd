"""The command-line parser: the commands and their options."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from capacityd import __version__
from capacityd.cli.argument_parser import ArgumentParser
from kubectl_capacityd.help import command_epilog, program_epilog
from kubectl_capacityd.template.notations import NOTATIONS

PROGRAM = "kubectl capacityd"

COMMANDS = {
    "fleet": "show what is free in a cluster, and which Nodes need attention",
    "template": "print what an autoscaler must know about a new node",
}
"""Command -> description. The module commands/COMMAND.py has a function with the command's name."""

SHARED: dict[str, dict[str, Any]] = {
    "--context": {
        "metavar": "CONTEXT",
        "help": "use this context of your kubeconfig instead of the current one",
    },
    "--kubeconfig": {"metavar": "FILE", "help": "use this kubeconfig instead of yours"},
    "--node-file": {
        "metavar": "FILE",
        "help": "read the Nodes from a JSON file instead of the API server; - is standard input",
    },
}
"""Option that all commands have -> its arguments for add_argument()."""


def command_parser() -> argparse.ArgumentParser:
    """Returns the parser. The manual is generated from it as well."""
    parser = ArgumentParser(
        prog=PROGRAM,
        description="Shows what capacityd publishes on the Nodes of a cluster.",
        make_epilog=program_epilog,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(title="commands", prog=PROGRAM, dest="command", required=True, metavar="COMMAND")
    subparsers = {
        name: commands.add_parser(name, help=about, description=about, make_epilog=partial(command_epilog, name))
        for name, about in COMMANDS.items()
    }
    _add_fleet_options(subparsers["fleet"])
    _add_template_options(subparsers["template"])
    for subparser in subparsers.values():
        for option, arguments in SHARED.items():
            subparser.add_argument(option, **arguments)
    return parser


def _add_fleet_options(fleet: argparse.ArgumentParser) -> None:
    fleet.add_argument(
        "node_names", nargs="*", metavar="NODE", help="report only these Nodes, but compare each with its whole group"
    )
    fleet.add_argument("--nodes", action="store_true", help="also list the resources of each Node")
    fleet.add_argument("--json", action="store_true", help="print JSON")
    _add_selector(fleet)
    fleet.add_argument(
        "--by",
        metavar="LABEL",
        help="compare Nodes with the same value of this label (default: node.kubernetes.io/instance-type)",
    )
    fleet.add_argument(
        "--max-age",
        metavar="DURATION",
        default="130min",
        help="report heartbeats older than this: twice the resync period and some minutes (default: 130min)",
    )
    fleet.add_argument("--textfile", metavar="FILE", help="also write metrics for node_exporter's textfile collector")


def _add_template_options(template: argparse.ArgumentParser) -> None:
    template.add_argument(
        "autoscaler",
        metavar="AUTOSCALER",
        choices=[*NOTATIONS],
        help=f"the autoscaler to write for: {', '.join(NOTATIONS)}",
    )
    template.add_argument(
        "--nodes", action="store_true", help="read what a cluster's Nodes publish now, instead of a machine"
    )
    _add_selector(template)
    template.add_argument(
        "--by", metavar="LABEL", help="with --nodes: print a document for each value of this label of the Nodes"
    )
    template.add_argument(
        "--resource",
        dest="resource_names",
        metavar="NAME",
        action="append",
        default=[],
        help="print only this resource; can be repeated",
    )
    template.add_argument(
        "--instance-type",
        dest="instance_types",
        metavar="TYPE",
        action="append",
        default=[],
        help="for karpenter: an instance type with this hardware; can be repeated",
    )
    template.add_argument(
        "--name",
        dest="overlay_name",
        metavar="NAME",
        default="capacityd",
        help="for karpenter: name of the NodeOverlay, or with --by its beginning (default: capacityd)",
    )
    template.add_argument(
        "--machine", metavar="FILE", help="read a recording (see capacityd record) instead of this machine"
    )
    template.add_argument(
        "--config", metavar="PATH", help="read this configuration file or folder instead of the default ones"
    )
    template.add_argument("--node-name", metavar="NAME", help="name of the Node, for `when` in the configuration")


def _add_selector(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-l",
        "--selector",
        metavar="SELECTOR",
        default="",
        help="only Nodes that match this label selector (as in kubectl get -l)",
    )

"""The command-line parser: the commands and their options."""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from typing import Any

from capacityd import __version__
from capacityd.cli.help import command_epilog, program_epilog
from capacityd.cli.notations import NOTATIONS

COMMANDS = {
    "devices": ("cli.commands.devices", "list this machine's devices, each with the TOML that matches it"),
    "probe": ("cli.commands.probe", "read the configured resources on this machine"),
    "plan": ("cli.commands.publish", "show what apply would change on the Node, and why; write nothing"),
    "apply": ("cli.commands.publish", "probe, plan, and write the changes to the Node"),
    "withdraw": ("cli.commands.publish", "remove everything that capacityd has published from the Node"),
    "run": ("cli.commands.run", "run the service: publish at start, and when the hardware or the Node changes"),
    "record": ("cli.commands.record", "save this machine's hardware to a file for --machine"),
    "status": ("cli.commands.status", "show the service's state, its last readings and its errors"),
    "fleet": ("cli.commands.fleet", "show what is free in a cluster, and which Nodes need attention"),
    "template": ("cli.commands.template", "print what an autoscaler must know about a new node"),
    "config": ("cli.commands.config", "check the configuration, show the merged result, or print its schema"),
}
"""Name -> the module with a function of this name, relative to the package; and the command's description."""

INTERNAL_COMMANDS = {"leftover": "cli.commands.leftover"}
"""Name -> module, for the package's command. --help does not list it."""


def command_parser() -> argparse.ArgumentParser:
    """Returns the parser. The manual and the shell completions are generated from it as well."""
    # Common options may stand before and after the command. SUPPRESS: a command's parser sets no default. A default
    # would replace the value of an option before the command.
    common = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    _add_common(common)
    parser = _Parser(
        prog="capacityd",
        description="Publishes this machine's static hardware as extended resources of its own\nKubernetes Node.",
        epilog=f"{program_epilog()}\n\nFor more: capacityd COMMAND --help, man capacityd, man capacityd.toml",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Not with parents=[common]: then this parser and the commands' parsers would share the objects of these options,
    # and set_defaults() below would set defaults for all parsers.
    _add_common(parser)
    # kubectl has --context before its command, so capacityd accepts it there: kubectl capacityd --context NAME fleet.
    _add_context(parser, default=None)
    parser.add_argument("--version", action="version", version=f"capacityd {__version__}")
    parser.set_defaults(config=None, machine=None, node_file=None, kubeconfig=None, node_name=None, json=False)
    commands = parser.add_subparsers(
        title="commands", prog="capacityd", dest="command", required=True, metavar="COMMAND"
    )
    subparsers = {
        name: commands.add_parser(
            name,
            help=about,
            description=about,
            epilog=command_epilog(name),
            parents=[common],
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, (_, about) in COMMANDS.items()
    }
    devices = subparsers["devices"]
    probe = subparsers["probe"]
    withdraw = subparsers["withdraw"]
    record = subparsers["record"]
    devices.add_argument("detector", nargs="?", metavar="DETECTOR", help="list only the devices of this detector")
    devices.add_argument("--toml", action="store_true", help="print a commented starter configuration")
    probe.add_argument("--explain", action="store_true", help="show for each device why it counts or does not")
    probe.add_argument(
        "--as-service", action="store_true", help="run in the service's sandbox, to get the same result as the service"
    )
    subparsers["plan"].add_argument("--patch", action="store_true", help="print the exact JSON Patch instead")
    for writing in (subparsers["apply"], withdraw):
        writing.add_argument("--dry-run", action="store_true", help="write nothing")
    withdraw.add_argument(
        "--all-annotated",
        action="store_true",
        help="also remove keys that only the Node's annotation lists; they are printed, and may be another program's",
    )
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
        metavar="check|show|schema",
        choices=["check", "show", "schema"],
        help="check: list all errors; show: the merged result; schema: the JSON Schema of the files, for editors",
    )
    _add_fleet_options(subparsers["fleet"])
    _add_template_options(subparsers["template"])
    commands.add_parser("leftover", parents=[common])  # for the package; hidden from --help
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the nearest command and the nearest option."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parses as argparse does. For an unknown option that is similar to a known one, ends the program with an
        error that suggests the known one.

        argparse calls this method of the program's parser and of the command's parser. Each suggests its own options.
        """
        parsed, unknown = super().parse_known_args(args, namespace)
        for argument in unknown:
            option = argument.partition("=")[0]
            if near := get_close_matches(option, self._option_string_actions, n=1):
                self.error(f'unrecognized arguments: {" ".join(unknown)}; did you mean "{near[0]}"?')
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: str) -> None:
        """Unlike argparse's method, leaves out internal commands in the message, and suggests the nearest command."""
        if action.dest == "command" and value not in COMMANDS and value not in INTERNAL_COMMANDS:
            near = get_close_matches(value, COMMANDS, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"must be one of {', '.join(COMMANDS)}"
            raise argparse.ArgumentError(None, f'unknown command "{value}"; {hint}')
        super()._check_value(action, value)


def _add_fleet_options(fleet: argparse.ArgumentParser) -> None:
    _add_context(fleet, default=argparse.SUPPRESS)
    fleet.add_argument(
        "node_names", nargs="*", metavar="NODE", help="report only these Nodes, but compare each with its whole group"
    )
    fleet.add_argument("--nodes", action="store_true", help="also list the resources of each Node")
    fleet.add_argument("--all", action="store_true", help="print a line for each Node instead of each group")
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
        metavar="|".join(NOTATIONS),
        choices=[*NOTATIONS],
        help="the autoscaler to write for: it reads tags, labels, annotations or an object",
    )
    _add_context(template, default=argparse.SUPPRESS)
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


def _add_context(parser: argparse.ArgumentParser, default: str | None) -> None:
    """Adds --context. default: SUPPRESS for a command's parser, for the reason in command_parser()."""
    parser.add_argument(
        "--context",
        metavar="CONTEXT",
        default=default,
        help="for fleet and template --nodes: use this context of your kubeconfig instead of the current one",
    )


def _add_selector(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-l",
        "--selector",
        metavar="SELECTOR",
        default="",
        help="only Nodes that match this label selector (as in kubectl get -l)",
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("common options, not useful for every command")
    group.add_argument(
        "--config",
        metavar="PATH",
        help="read this configuration file or folder instead of the default ones",
    )
    group.add_argument("--machine", metavar="FILE", help="read a recording (see record) instead of this machine")
    group.add_argument(
        "--node-file",
        metavar="FILE",
        help="read the Node (fleet, template --nodes: the Nodes) from a JSON file instead of the API server; "
        "- is standard input",
    )
    group.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="use this kubeconfig instead of the kubelet's (fleet, template --nodes: instead of yours)",
    )
    group.add_argument("--node-name", metavar="NAME", help="name of the Node, if capacityd cannot determine it")
    group.add_argument("--json", action="store_true", help="print JSON")

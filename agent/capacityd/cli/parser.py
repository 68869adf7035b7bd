"""The command-line parser: the commands and their options."""

from __future__ import annotations

import argparse

from capacityd import __version__
from capacityd.cli.argument_parser import ArgumentParser
from capacityd.cli.help import command_epilog, program_epilog

COMMANDS = {
    "devices": ("cli.commands.devices", "list this machine's devices, each with the TOML that matches it"),
    "probe": ("cli.commands.probe", "read the configured resources on this machine"),
    "plan": ("cli.commands.publish", "show what apply would change on the Node, and why; write nothing"),
    "apply": ("cli.commands.publish", "probe, plan, and write the changes to the Node"),
    "withdraw": ("cli.commands.publish", "remove everything that capacityd has published from the Node"),
    "run": ("cli.commands.run", "run the service: publish at start, and when the hardware or the Node changes"),
    "record": ("cli.commands.record", "save this machine's hardware to a file for --machine"),
    "status": ("cli.commands.status", "show the service's state, its last readings and its errors"),
    "config": ("cli.commands.config", "check the configuration, or show the merged result"),
}
"""Name -> the module, relative to the package, and a description. The module has a function with the command's name."""

INTERNAL_COMMANDS = {"leftover": "cli.commands.leftover"}
"""Name -> module, for a command that only the Debian package runs. --help does not list it."""


def command_parser() -> argparse.ArgumentParser:
    """Returns the parser. The manual and the shell completions are generated from it as well."""
    # Common options may stand before or after the command. With SUPPRESS, a command's parser sets no defaults, which
    # would replace the values of options before the command.
    common = ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    _add_common(common)
    parser = ArgumentParser(
        prog="capacityd",
        description="Publishes this machine's static hardware as extended resources of its own\nKubernetes Node.",
        epilog=f"{program_epilog()}\n\nFor more: capacityd COMMAND --help, man capacityd, man capacityd.toml",
    )
    # With parents=[common], this parser and the commands' parsers would share the objects of the options. Then
    # set_defaults() below would set defaults for all parsers.
    _add_common(parser)
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
        )
        for name, (_, about) in COMMANDS.items()
    }
    devices = subparsers["devices"]
    probe = subparsers["probe"]
    record = subparsers["record"]
    devices.add_argument("detector", nargs="?", metavar="DETECTOR", help="list only the devices of this detector")
    devices.add_argument("--toml", action="store_true", help="print a commented starter configuration")
    probe.add_argument("--explain", action="store_true", help="show for each device why it counts or does not")
    probe.add_argument(
        "--as-service", action="store_true", help="run in the service's sandbox, to get the same result as the service"
    )
    subparsers["plan"].add_argument("--patch", action="store_true", help="print the patch instead, for kubectl patch")
    subparsers["withdraw"].add_argument("--dry-run", action="store_true", help="show what would be removed")
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
    commands.add_parser("leftover", parents=[common])  # for the Debian package; hidden from --help
    return parser


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
        help="read the Node from a JSON file instead of the API server; - is standard input",
    )
    group.add_argument("--kubeconfig", metavar="FILE", help="use this kubeconfig instead of the kubelet's")
    group.add_argument("--node-name", metavar="NAME", help="name of the Node, if capacityd cannot determine it")
    group.add_argument("--json", action="store_true", help="print JSON")

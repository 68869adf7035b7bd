"""The command line: the only place that prints. Results go to standard output, all else to standard error.

Exit status: 0 done; 1 failed; 2 usage or configuration; 3 the API server can't be reached or does not let us in;
4 done, but something is unknown or refused.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from capacityd import __version__
from capacityd.errors import CapacitydError

_COMMANDS = {
    "devices": ("look", "what this machine has, each with the line of TOML that would match it"),
    "probe": ("look", "what the configured resources amount to on this machine"),
    "plan": ("publish", "what apply would change on the Node and why, and the exact patch; writes nothing"),
    "apply": ("publish", "probe, plan, and write to the Node"),
    "withdraw": ("publish", "remove from the Node all that is recorded as published"),
    "run": ("serve", "the service: publish once, and again when the hardware changes"),
    "status": ("report", "what the service last saw, published, holds back and could not do"),
    "record": ("record", "this machine's hardware as a file that --machine takes on any machine"),
    "config": ("configure", "check the configuration, or show what it amounts to"),
}
_INTERNAL = {"child": ("serve", "")}


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status."""
    try:
        options = _parser().parse_args(arguments)
        module = import_module(f"{__name__}.{(_COMMANDS | _INTERNAL)[options.command][0]}")
        status: int = getattr(module, options.command)(options)
        sys.stdout.flush()
        return status
    except CapacitydError as e:
        print(f"capacityd: {e}", file=sys.stderr)
        return e.exit_status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _parser() -> argparse.ArgumentParser:
    # The same options before and after the command: SUPPRESS keeps the later parser from undoing the earlier one's.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS, formatter_class=_formatter)
    _add_common(common)
    parser = argparse.ArgumentParser(
        prog="capacityd",
        description="Publishes this machine's static hardware as extended resources of its own Kubernetes Node.",
        allow_abbrev=False,
        formatter_class=_formatter,
    )
    _add_common(parser)  # not parents=[common]: set_defaults would then change the commands' own defaults too
    parser.add_argument("--version", action="version", version=f"capacityd {__version__}")
    parser.set_defaults(config=None, machine=None, node_file=None, kubeconfig=None, node_name=None, json=False)
    # prog: else argparse lays a usage text out to find it, which costs 3 ms
    commands = parser.add_subparsers(prog="capacityd", dest="command", required=True, metavar="COMMAND")
    made = {
        name: commands.add_parser(
            name, help=about, description=about, parents=[common], allow_abbrev=False, formatter_class=_formatter
        )
        for name, (_, about) in _COMMANDS.items()
    }
    made["devices"].add_argument("detector", nargs="?", metavar="DETECTOR", help="only what this detector sees")
    made["devices"].add_argument("--toml", action="store_true", help="a commented starter configuration made from it")
    made["probe"].add_argument("--explain", action="store_true", help="for each device why it counted or did not")
    made["apply"].add_argument("--dry-run", action="store_true", help="write nothing")
    made["apply"].add_argument(
        "--wait", metavar="DURATION", help="wait until allocatable has followed, such as 30s or 2min"
    )
    made["record"].add_argument("file", metavar="FILE", help="compressed if it ends with .gz; - for standard output")
    made["record"].add_argument("--force", action="store_true", help="replace the file if it is there already")
    made["record"].add_argument(
        "--keep-serials", action="store_true", help="keep serial numbers, MAC and IP addresses and the host name"
    )
    made["config"].add_argument("what", choices=["check", "show"], help="check: all mistakes; show: the merged result")
    child = commands.add_parser("child", parents=[common])  # what the service starts; without help, so not listed
    child.add_argument("folder")
    child.add_argument("job", choices=["check", "look"])
    child.add_argument("reasons", nargs="?", default="")
    return parser


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Given a width, argparse does not import shutil for it, at every argument that is added: 3 ms of each start."""
    try:
        width = os.get_terminal_size().columns
    except OSError:
        width = 80
    return argparse.HelpFormatter(prog, width=max(40, width - 2))


def _add_common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("anywhere")
    group.add_argument("--config", metavar="PATH", help="a file or folder instead of /etc/capacityd and its like")
    group.add_argument("--machine", metavar="FILE", help="a recorded machine instead of this one")
    group.add_argument(
        "--node-file", metavar="FILE", help="a Node as JSON instead of the API server; - for standard input"
    )
    group.add_argument("--kubeconfig", metavar="FILE", help="instead of the kubelet's own")
    group.add_argument("--node-name", metavar="NAME", help="the Node's name, if it can't be found out")
    group.add_argument("--json", action="store_true", help="print JSON")

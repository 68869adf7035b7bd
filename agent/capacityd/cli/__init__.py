"""The command line: the only place that prints. Results go to standard output, all else to standard error.

Exit status: 0 done; 1 failed; 2 usage or configuration; 3 the API server can't be reached or does not let us in;
4 done, but something is unknown or refused.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from capacityd import __version__
from capacityd.errors import CapacitydError, UsageError

_COMMANDS = {
    "devices": ("devices", "what this machine has, each with the line of TOML that would match it"),
    "probe": ("look", "what the configured resources amount to on this machine"),
    "plan": ("publish", "what apply would change on the Node, and why; writes nothing"),
    "apply": ("publish", "probe, plan, and write to the Node"),
    "withdraw": ("publish", "remove from the Node all that is recorded as published"),
    "run": ("serve", "the service: publish once, and again when the hardware changes"),
    "record": ("record", "this machine's hardware as a file that --machine takes on any machine"),
    "status": ("report", "whether the service is well, what it saw and published, and what comes next"),
    "config": ("configure", "check the configuration, show what it amounts to, or print its schema"),
}
_INTERNAL = {"child": ("serve", "")}
_TOOLS = {"cli.devices": "devices", "cli.record": "record", "config.schema": "config schema"}
"""What only people need is in a package of its own: the modules by which one meets it, and what it is to them."""


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status."""
    _open_standard_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: not every locale has an arrow
    try:
        options = command_parser().parse_args(arguments)
        status = _done(options)
        sys.stdout.flush()
        return status
    except CapacitydError as e:
        from capacityd.cli.text import clean

        print("capacityd:", "\n".join(clean(line) for line in str(e).split("\n")), file=sys.stderr)
        return e.exit_status
    except KeyboardInterrupt:
        return 130
    except OSError as e:
        return _unwritten(e)


def _open_standard_streams() -> None:
    """Whoever closed one (>&-) does not want it; left closed, the next file that is opened would be taken for it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # for as long as the process lives


def _unwritten(error: OSError) -> int:
    """The exit status when standard output can't be written. Raises error if that is not what is wrong."""
    try:
        print(flush=True)  # it fails again, then
    except OSError:
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 141  # whoever read our output has seen enough
        print(f"capacityd: standard output could not be written: {os.strerror(error.errno or 0)}", file=sys.stderr)
        return 1
    raise error


def _done(options: argparse.Namespace) -> int:
    """Runs the command. Raises UsageError if it is in the package that is not there."""
    try:
        module = import_module(f"{__name__}.{(_COMMANDS | _INTERNAL)[options.command][0]}")
        status: int = getattr(module, options.command)(options)
    except ModuleNotFoundError as e:
        what = _TOOLS.get((e.name or "").removeprefix("capacityd."))
        if what is None:
            raise
        raise UsageError(f"{what} is in the package capacityd-tools: apt install capacityd-tools") from e
    return status


def command_parser() -> argparse.ArgumentParser:
    """What the command line may hold; the manual and the completions are made from it, too."""
    # The same options before and after the command: SUPPRESS keeps the later parser from undoing the earlier one's.
    common = _Parser(add_help=False, argument_default=argparse.SUPPRESS, formatter_class=_formatter)
    _add_common(common)
    parser = _Parser(
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
    made["plan"].add_argument("--patch", action="store_true", help="print the exact JSON Patch instead")
    made["probe"].add_argument(
        "--as-service", action="store_true", help="in the sandbox of the service, as it reads them"
    )
    made["apply"].add_argument("--dry-run", action="store_true", help="write nothing")
    made["apply"].add_argument(
        "--wait", metavar="DURATION", help="wait until allocatable has followed, such as 30s or 2min"
    )
    made["record"].add_argument("file", metavar="FILE", help="compressed if it ends with .gz; - for standard output")
    made["record"].add_argument("--force", action="store_true", help="replace the file if it is there already")
    made["record"].add_argument(
        "--keep-serials", action="store_true", help="keep serial numbers, MAC and IP addresses and the host name"
    )
    made["config"].add_argument(
        "what",
        metavar="check|show|schema",
        choices=["check", "show", "schema"],
        help="check: all mistakes; show: the merged result; schema: the JSON Schema of the files, for editors",
    )
    child = commands.add_parser(
        "child", parents=[common], formatter_class=_formatter
    )  # what the service starts; without help, so not listed
    child.add_argument("folder")
    child.add_argument("job", choices=["check", "look"])
    child.add_argument("reasons", nargs="?", default="")
    return parser


class _Parser(argparse.ArgumentParser):
    """Whose help says more than argparse knows; what it says is loaded for that only."""

    def format_help(self) -> str:
        from capacityd.cli.help import after_options, overview

        _, _, command = self.prog.partition(" ")
        if command:
            return super().format_help() + after_options(command)
        return overview(self, {name: about for name, (_, about) in _COMMANDS.items()})

    def _check_value(self, action: argparse.Action, value: str) -> None:
        """argparse would name the internal ones, too."""
        if action.dest == "command" and value not in (_COMMANDS | _INTERNAL):
            from difflib import get_close_matches

            near = get_close_matches(value, _COMMANDS, n=1)
            near = ["--help"] if value == "help" else near
            hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(_COMMANDS)}"
            raise argparse.ArgumentError(None, f'there is no command "{value}"; {hint}')
        super()._check_value(action, value)


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

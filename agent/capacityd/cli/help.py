"""What --help says beside the options: the commands in groups, examples, exit statuses. Loaded for that only."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

GROUPS = {
    "look at this machine (no root, no cluster)": ("devices", "probe", "record"),
    "publish on the Node": ("plan", "apply", "withdraw"),
    "the service": ("run", "status"),
    "the configuration": ("config",),
}

EXAMPLES = {
    "": (
        ("capacityd devices usb", "USB devices, and the TOML for each"),
        ("capacityd probe --explain", "what is made of this machine, and why"),
        ("capacityd plan", "what apply would change"),
        ("capacityd status", "whether the service is well"),
    ),
    "devices": (
        ("capacityd devices", "all that the detectors see"),
        ("capacityd devices usb", "USB devices only, but each of them"),
        ("capacityd devices --toml", "a configuration to begin with"),
    ),
    "probe": (
        ("capacityd probe", "each resource and its quantity"),
        ("capacityd probe --explain --config new.toml", "try a file before it is installed"),
    ),
    "record": (("capacityd record machine.json", "this machine's hardware, to be looked at anywhere"),),
    "plan": (
        ("capacityd plan", "what apply would change"),
        ("capacityd plan --patch", "the exact JSON Patch"),
        ("kubectl get node n1 -o json | capacityd plan --node-file -", "without credentials"),
    ),
    "apply": (
        ("capacityd apply --dry-run", "the same as plan"),
        ("capacityd apply --wait 30s", "until pods can be placed by it"),
    ),
    "withdraw": (("capacityd withdraw", "what others have written stays"),),
    "run": (("capacityd run", "as the systemd unit does it"),),
    "status": (
        ("capacityd status", "on one screen"),
        ("capacityd status --json", "for monitoring; see the exit status, too"),
    ),
    "config": (
        ("capacityd config check", "all mistakes at once"),
        ("capacityd config show --config new.toml", "what a file amounts to"),
        ("capacityd config schema", "the JSON Schema, for editors"),
    ),
}
"""Command line and what it is for, by command; "": of all."""

_WIDTH = 80
_SIGNS = "+ set, ~ changed, - removed, = as it is, … held back, ! refused"
NOTES = {"plan": _SIGNS, "apply": _SIGNS, "withdraw": _SIGNS}
"""What the signs in a command's output mean."""

STATUSES = (
    (0, "done"),
    (1, "failed"),
    (2, "usage or configuration"),
    (3, "the API server can't be reached or does not let us in"),
    (4, "done, but something is unknown or refused"),
)

OWN_STATUSES = {"status": ((1, "the service does not run"), (4, "something is unknown, refused or wrong"))}
"""What an exit status means of one command only."""


def after_options(command: str) -> str:
    """Examples and exit statuses of a command ("": of all)."""
    statuses = dict(STATUSES) | dict(OWN_STATUSES.get(command, ()))
    said = "".join(f"  {status}  {meaning}\n" for status, meaning in statuses.items())
    note = f"signs:\n  {NOTES[command]}\n\n" if command in NOTES else ""
    return f"\n{_examples(command)}{note}exit status:\n{said}"


def overview(parser: argparse.ArgumentParser, commands: Mapping[str, str]) -> str:
    """The help of the program itself. commands: name -> what it does."""
    formatter = parser.formatter_class(prog=parser.prog)
    formatter.add_usage(f"{parser.prog} [OPTION]... COMMAND [OPTION]...", [], [], None)
    formatter.add_text(parser.description)
    known = [name for names in GROUPS.values() for name in names]
    groups = {**GROUPS, "others": tuple(name for name in commands if name not in known)}
    for title, names in groups.items():
        formatter.start_section(title)
        formatter.add_arguments([argparse.Action([], name, help=commands[name]) for name in names if name in commands])
        formatter.end_section()
    formatter.start_section("options, before or after the command")
    formatter.add_arguments(
        [action for action in parser._actions if action.option_strings]  # argparse has no other way to get at them
    )
    formatter.end_section()
    return f"{formatter.format_help()}{after_options('')}\ncapacityd COMMAND --help tells more of each.\n"


def _examples(command: str) -> str:
    lines = EXAMPLES.get(command, ())
    if not lines:
        return ""
    width = max(len(line) for line, _ in lines)
    if any(width + len(meaning) > _WIDTH - 6 for _, meaning in lines):
        said = "".join(f"  # {meaning}\n  {line}\n" for line, meaning in lines)
    else:
        said = "".join(f"  {line:<{width}}  # {meaning}\n" for line, meaning in lines)
    return f"examples:\n{said}\n"

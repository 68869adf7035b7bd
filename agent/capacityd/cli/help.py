"""What --help says below the options of each command: examples, signs and exit statuses."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

_WIDTH = 80
"""Columns of a standard terminal."""

PROGRAM_EXAMPLES = (
    ("capacityd devices usb", "USB devices, each with its TOML"),
    ("capacityd probe --explain", "each resource's quantity, and why"),
    ("capacityd plan", "what apply would change"),
    ("capacityd status", "is the service healthy?"),
)
EXAMPLES = {
    "devices": (
        ("capacityd devices", "disks, network interfaces, PCI and USB devices"),
        ("capacityd devices usb", "only USB devices"),
        ("capacityd devices --toml", "a starter configuration"),
    ),
    "probe": (
        ("capacityd probe", "each resource and its quantity"),
        ("capacityd probe --explain --config new.toml", "try a new file"),
    ),
    "record": (("capacityd record machine.json", "to use with --machine on any machine"),),
    "plan": (
        ("capacityd plan", "what apply would change"),
        ("capacityd plan --patch", "the exact patch, for kubectl"),
        ("capacityd plan --node-file n1.json", "a Node that kubectl has saved as JSON"),
    ),
    "apply": (("capacityd apply", "pods can use the resources at once"),),
    "withdraw": (
        ("capacityd withdraw --dry-run", "what would be removed"),
        ("capacityd withdraw", "what the annotation lists, and the condition"),
    ),
    "run": (("capacityd run", "what the systemd unit runs"),),
    "status": (
        ("capacityd status", "for people"),
        ("capacityd status --json", "for monitoring; see the exit status"),
    ),
    "config": (
        ("capacityd config check", "all errors at once"),
        ("capacityd config show --config new.toml", "the merged result"),
    ),
}
"""Command -> pairs of command line and purpose."""

_PLAN_SIGNS = "+ set, ~ changed, - removed, = unchanged, … held back, ! refused or denied, < less than expected"
SIGNS = {
    "plan": _PLAN_SIGNS,
    "apply": _PLAN_SIGNS,
    "withdraw": _PLAN_SIGNS,
    "status": "! an error, → its remedy; quantities are in plain digits: 25000, where kubectl shows 25k",
}
"""Command -> the meaning of the signs in its output."""

STATUSES = {  # exit status -> its meaning
    0: "done",
    1: "failed",
    2: "an error in the usage or the configuration",
    3: "the API server is unreachable or denies access",
    4: "done, but something is unknown, refused or less than expected",
}

_PLAN_STATUSES = {4: "something is unknown, refused or denied; what is less than expected is published, and no failure"}
COMMAND_STATUSES = {
    "plan": _PLAN_STATUSES,
    "apply": _PLAN_STATUSES,
    "status": {
        1: "the service is not running",
        4: "degraded: something is unknown, refused or less than expected, or an error is listed",
    },
}
"""Command -> exit status -> its meaning, where it differs from STATUSES."""


def program_epilog() -> str:
    """Returns the text below the options in `capacityd --help`: examples and exit statuses."""
    text = epilog(PROGRAM_EXAMPLES, STATUSES)
    return f"{text}\n\nFor more: capacityd COMMAND --help, man capacityd, man capacityd.toml"


def command_epilog(command: str) -> str:
    """Returns the text below the options in `capacityd COMMAND --help`: examples, signs and exit statuses."""
    statuses = STATUSES | COMMAND_STATUSES.get(command, {})
    return epilog(EXAMPLES[command], statuses, signs=SIGNS.get(command, ""))


def epilog(examples: Sequence[tuple[str, str]], statuses: Mapping[int, str], signs: str = "") -> str:
    """Returns the text of --help below the options.

    examples: pairs of command line and purpose. statuses: exit status -> its meaning. signs: the meaning of the signs
    in the output.
    """
    width = max(len(command_line) for command_line, _ in examples)
    lines = ["examples:"]
    lines += [f"  {command_line:<{width}}  # {purpose}" for command_line, purpose in examples]
    if signs:
        lines += ["", "signs:", *_wrapped(f"  {signs}", indent=2)]
    lines += ["", "exit status:"]
    for status, meaning in statuses.items():
        lines += _wrapped(f"  {status}  {meaning}", indent=5)
    return "\n".join(lines)


def _wrapped(line: str, indent: int) -> list[str]:
    """The line, broken into lines of at most _WIDTH characters. indent: spaces before each line except the first."""
    return textwrap.wrap(line, _WIDTH, subsequent_indent=" " * indent)

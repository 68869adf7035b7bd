"""What --help says below the options of each command: examples, signs, exit statuses and files."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

_WIDTH = 80
"""Columns of a standard terminal."""

EXAMPLES = {
    "": (
        ("capacityd devices usb", "USB devices, each with its TOML"),
        ("capacityd probe --explain", "each resource's quantity, and why"),
        ("capacityd plan", "what apply would change"),
        ("capacityd status", "is the service healthy?"),
    ),
    "devices": (
        ("capacityd devices", "the devices of all detectors"),
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
"""Command, or "" for the program itself -> pairs of command line and purpose."""

_PLAN_SIGNS = "+ set, ~ changed, - removed, = unchanged, … held back, ! refused or denied, < less than expected"
SIGNS = {
    "plan": _PLAN_SIGNS,
    "apply": _PLAN_SIGNS,
    "withdraw": _PLAN_SIGNS,
    "status": "! an error, → its remedy; quantities are in plain digits: 25000, where kubectl shows 25k",
}
"""Command -> the meaning of the signs in its output."""

FILES = (
    ("/etc/capacityd/conf.d/*.toml", "the configuration, capacityd.toml(5)"),
    ("/usr/share/capacityd/examples", "configurations to copy from"),
)
"""Pairs of path and content, for the help of the program itself."""

STATUSES = {  # exit status -> its meaning
    0: "done",
    1: "failed",
    2: "an error in the usage or the configuration",
    3: "the API server is unreachable or denies access",
    4: "done, but something is unknown, refused or less than expected",
}

_NOT_PUBLISHED = {4: "something is unknown, refused or denied; what is less than expected is published, and no failure"}
COMMAND_STATUSES = {
    "plan": _NOT_PUBLISHED,
    "apply": _NOT_PUBLISHED,
    "status": {
        1: "the service is not running",
        4: "degraded: something is unknown, refused or less than expected, or an error is listed",
    },
}
"""Command -> exit status -> its meaning, where it differs from STATUSES."""


def program_epilog() -> str:
    """Returns examples, exit statuses and files of the program itself."""
    text = epilog(EXAMPLES[""], STATUSES, files=FILES)
    return f"{text}\n\nFor more: capacityd COMMAND --help, man capacityd, man capacityd.toml"


def command_epilog(command: str) -> str:
    """Returns examples, signs and exit statuses of a command."""
    statuses = STATUSES | COMMAND_STATUSES.get(command, {})
    return epilog(EXAMPLES[command], statuses, signs=SIGNS.get(command, ""))


def epilog(
    examples: Sequence[tuple[str, str]],
    statuses: Mapping[int, str],
    signs: str = "",
    files: Sequence[tuple[str, str]] = (),
) -> str:
    """Returns the text below the options.

    examples: pairs of command line and purpose. statuses: exit status -> its meaning. signs: the meaning of the signs
    in the output. files: pairs of path and content.
    """
    parts = [["examples:", *_aligned(examples, before_meaning="# ")]]
    if signs:
        parts.append(["signs:", *_wrapped(f"  {signs}", indent=2)])
    lines = [line for code, text in statuses.items() for line in _wrapped(f"  {code}  {text}", indent=5)]
    parts.append(["exit status:", *lines])
    if files:
        parts.append(["files:", *_aligned(files)])
    return "\n\n".join("\n".join(part) for part in parts)


def _aligned(rows: Sequence[tuple[str, str]], before_meaning: str = "") -> list[str]:
    """A line for each pair, with the meanings in one column."""
    width = max(len(name) for name, _ in rows)
    return [f"  {name:<{width}}  {before_meaning}{meaning}" for name, meaning in rows]


def _wrapped(line: str, indent: int) -> list[str]:
    """The line, broken into lines of at most _WIDTH characters. indent: spaces before each line except the first."""
    return textwrap.wrap(line, _WIDTH, subsequent_indent=" " * indent)

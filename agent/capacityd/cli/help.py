"""The text below the options of --help: examples, signs and exit statuses."""

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
        ("capacityd devices usb", "each USB device, even if many are alike"),
        ("capacityd devices --toml", "a starter configuration"),
    ),
    "probe": (
        ("capacityd probe", "each resource and its quantity"),
        ("capacityd probe --explain --config new.toml", "try a new file"),
    ),
    "record": (("capacityd record machine.json", "to use with --machine on any machine"),),
    "plan": (
        ("capacityd plan", "what apply would change"),
        ("capacityd plan --patch", "the exact JSON Patch"),
        ("capacityd plan --node-file n1.json", "a Node that kubectl has saved as JSON"),
    ),
    "apply": (
        ("capacityd apply --dry-run", "the same as plan"),
        ("capacityd apply", "pods can use the resources at once"),
    ),
    "withdraw": (
        ("capacityd withdraw --dry-run", "what would be removed"),
        ("capacityd withdraw", "what this machine has published"),
        ("capacityd withdraw --all-annotated", "all keys in the annotation"),
    ),
    "run": (("capacityd run", "what the systemd unit runs"),),
    "status": (
        ("capacityd status", "for people"),
        ("capacityd status --json", "for monitoring; see the exit status"),
    ),
    "fleet": (
        ("capacityd fleet", "all Nodes"),
        ("capacityd fleet n1 n2", "two Nodes, and what each has free"),
        ("capacityd fleet -l pool=a --by pool", "one pool, compared within it"),
        ("capacityd fleet --node-file saved.json", "from a saved list"),
        ("capacityd fleet --json", "for programs; see the exit status"),
    ),
    "template": (
        ("capacityd template aws", "for an empty group"),
        ("capacityd template gke --machine m.json", "from a recording"),
        ("capacityd template karpenter --instance-type m7i.metal", "a NodeOverlay"),
        ("capacityd template aws --nodes -l pool=a", "from a pool's Nodes"),
    ),
    "config": (
        ("capacityd config check", "all errors at once"),
        ("capacityd config show --config new.toml", "the merged result"),
        ("capacityd config schema", "the JSON Schema, for editors"),
    ),
}
"""Command, or "" for the program itself -> pairs of command line and purpose."""

_PLAN_SIGNS = "+ set, ~ changed, - removed, = unchanged, … held back, ! refused or denied, < less than expected"
SIGNS = {
    "plan": _PLAN_SIGNS,
    "apply": _PLAN_SIGNS,
    "withdraw": _PLAN_SIGNS,
    "status": "! an error, → its remedy; quantities are in plain digits: 25000, where kubectl shows 25k",
    "fleet": "! an error, ~ different from the rest of its group, or a wrong clock",
}
"""Command -> the meaning of the signs in its output."""

FILES = (
    ("/etc/capacityd/conf.d/*.toml", "the configuration, capacityd.toml(5)"),
    ("/usr/share/capacityd/examples", "configurations to copy from"),
)
"""Pairs of path and what is there, for the help of the program itself."""

STATUSES = {  # exit status -> its meaning
    0: "done",
    1: "failed",
    2: "an error in the usage or the configuration",
    3: "the API server is unreachable or denies access",
    4: "done, but something is unknown, refused or less than expected",
    5: "`run` lacks a Python module, so systemd does not start it again until a package installs it",
}

COMMAND_STATUSES = {
    "fleet": {4: "a Node needs attention"},
    "status": {
        1: "the service is not running",
        4: "degraded: something is unknown, refused or less than expected, or an error is listed",
    },
}
"""Command -> exit status -> its meaning, where it differs from STATUSES."""


def program_epilog() -> str:
    """Returns examples, exit statuses and files of the program itself."""
    width = max(len(path) for path, _ in FILES)
    files = [f"  {path:<{width}}  {about}" for path, about in FILES]
    return "\n".join([*_examples(EXAMPLES[""]), "", *_statuses(STATUSES), "", "files:", *files])


def command_epilog(command: str) -> str:
    """Returns examples, signs and exit statuses of a command."""
    signs = ["signs:", *_wrapped(f"  {SIGNS[command]}", indent=2), ""] if command in SIGNS else []
    statuses = STATUSES | COMMAND_STATUSES.get(command, {})
    return "\n".join([*_examples(EXAMPLES[command]), "", *signs, *_statuses(statuses)])


def _examples(examples: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(line) for line, _ in examples)
    return ["examples:", *(f"  {line:<{width}}  # {meaning}" for line, meaning in examples)]


def _statuses(statuses: Mapping[int, str]) -> list[str]:
    lines = ["exit status:"]
    for code, text in statuses.items():
        lines += _wrapped(f"  {code}  {text}", indent=5)
    return lines


def _wrapped(line: str, indent: int) -> list[str]:
    """The line, broken into lines of at most _WIDTH characters. indent: spaces before each line except the first."""
    return textwrap.wrap(line, _WIDTH, subsequent_indent=" " * indent)

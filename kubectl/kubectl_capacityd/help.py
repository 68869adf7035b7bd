"""What --help says below the options of each command."""

from __future__ import annotations

from capacityd.cli.help import epilog

EXAMPLES = {
    "fleet": (
        ("kubectl capacityd fleet", "all Nodes"),
        ("kubectl capacityd fleet n1 n2", "two Nodes, and what each has free"),
        ("kubectl capacityd fleet -l pool=a --by pool", "one pool, compared within it"),
        ("kubectl capacityd fleet --node-file saved.json", "from a saved list"),
        ("kubectl capacityd fleet --json", "for programs; see the exit status"),
    ),
    "template": (
        ("kubectl capacityd template aws", "for an empty group"),
        ("kubectl capacityd template gke --machine m.json", "from a recording"),
        ("kubectl capacityd template karpenter --instance-type m7i.metal", "a NodeOverlay"),
        ("kubectl capacityd template aws --nodes -l pool=a", "from a pool's Nodes"),
    ),
}
"""Command -> pairs of command line and purpose."""

SIGNS = {"fleet": "! an error, ~ different from the rest of its group, or a wrong clock"}
"""Command -> the meaning of the signs in its output."""

STATUSES = {  # exit status -> its meaning
    0: "done",
    1: "failed",
    2: "an error in the usage or the configuration",
    3: "the API server is unreachable or denies access",
    4: "fleet: something needs attention; template: a resource is left out",
}


def program_epilog() -> str:
    """Returns examples and exit statuses of the program itself."""
    first_examples = [examples[0] for examples in EXAMPLES.values()]
    text = epilog(first_examples, STATUSES)
    return f"{text}\n\nFor more: kubectl capacityd COMMAND --help, man kubectl-capacityd"


def command_epilog(command: str) -> str:
    """Returns examples, signs and exit statuses of a command."""
    return epilog(EXAMPLES[command], STATUSES, signs=SIGNS.get(command, ""))

"""What the removal of the package says: what stays on the Node, and the one command that takes it back.

Runs while the service may still be up. By then its own command, withdraw, is about to be gone, so it names kubectl's.
"""

from __future__ import annotations

import json
import shlex
import sys

BEFORE = 'To take it back, run "capacityd withdraw" before the removal (after "systemctl stop capacityd").'


def farewell(status: str) -> str:
    """status: what the service last wrote down; empty if there is nothing."""
    try:
        found = json.loads(status)
        node, names = str(found["plan"]["node"]), sorted(found["published"])
    except (ValueError, KeyError, TypeError):
        return f"capacityd: the Node keeps what its annotation capacityd/published names, if it has one. {BEFORE}"
    if not names:
        return f"capacityd: nothing of it is published on Node {node}."
    patch = {
        "metadata": {"annotations": {"capacityd/published": None}},
        "status": {
            "capacity": dict.fromkeys(names),
            "conditions": [{"type": "CapacityPublished", "$patch": "delete"}],
        },
    }
    command = ["kubectl", "patch", "node", node, "--subresource=status", f"--patch={json.dumps(patch)}"]
    kept = f"capacityd: Node {node} keeps {', '.join(names)}."
    return f"{kept} {BEFORE} After it, as the cluster's administrator:\n{shlex.join(command)}"


if __name__ == "__main__":
    try:
        with open(sys.argv[1], encoding="utf-8") as f:
            text = f.read()
    except OSError:
        text = ""
    print(farewell(text))

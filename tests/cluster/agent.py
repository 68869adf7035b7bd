"""capacityd as it runs on a node, with the distribution's Python: its commands, and what it writes to its Node."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.cluster.controlplane import Cluster

PYTHON = Path("/usr/bin/python3")
CLIENT = Path(os.environ.get("CAPACITYD_PYTHON") or PYTHON)
"""The Python that runs capacityd: the distribution's, or one with another version of the client (matrix.py)."""
DONGLE = "example.com/dongle"
ANNOTATION = "capacityd/published"
CONDITION = "CapacityPublished"

AGENT = ROOT / "agent"
KUBECTL = ROOT / "kubectl"
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from capacityd.__main__ import main; sys.exit(main())"
_START_KUBECTL = (
    "import sys; sys.path[:0] = sys.argv[1:3]; del sys.argv[1:3]; "
    "from kubectl_capacityd.__main__ import main; sys.exit(main())"
)


def capacityd(python: Path = CLIENT) -> list[str | Path]:
    """The command that runs capacityd without arguments, as the package's launcher does."""
    return [python, "-I", "-c", _START, AGENT]


def kubectl_capacityd(python: Path = CLIENT) -> list[str | Path]:
    """The command that runs `kubectl capacityd` without arguments, as its package's launcher does."""
    return [python, "-I", "-c", _START_KUBECTL, AGENT, KUBECTL]


def published_on(node: Mapping[str, Any]) -> dict[str, int]:
    """The names and numbers in the annotation of a Node."""
    document: dict[str, int] = json.loads(node["metadata"].get("annotations", {}).get(ANNOTATION, "{}"))
    return document


def condition_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """capacityd's condition on a Node, or {}."""
    conditions = node["status"].get("conditions", [])
    return next((dict(condition) for condition in conditions if condition["type"] == CONDITION), {})


def our_events(cluster: Cluster, node: str) -> list[str]:
    """The message of each Event by capacityd about a Node, oldest first."""
    return [event["message"] for event in cluster.events_of(node) if event["source"].get("component") == "capacityd"]

"""The options of a command, as values."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options of a command. Options of other commands keep their defaults. None means that the option is not given.

    The help texts are in parser.py.
    """

    command: str
    kubeconfig: str | None = None
    context: str | None = None
    node_file: str | None = None
    """A saved list of Nodes."""
    nodes: bool = False
    selector: str = ""
    by: str | None = None
    # fleet
    node_names: Sequence[str] = ()
    json: bool = False
    max_age: str = ""
    textfile: str | None = None
    # template
    autoscaler: str = ""
    resource_names: Sequence[str] = ()
    instance_types: Sequence[str] = ()
    overlay_name: str = ""
    machine: str | None = None
    config: str | None = None
    node_name: str | None = None


def options_of(parsed: argparse.Namespace) -> ClusterOptions:
    """The options of the parsed command line. The parser stores each option under the name of its field."""
    return ClusterOptions(**vars(parsed))

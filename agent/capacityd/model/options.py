"""The options that the commands share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Selection:
    """The options that select a machine, a configuration and a Node. None selects the default."""

    config: str | None = None
    """A configuration file or folder."""
    machine: str | None = None
    """A recording of a machine."""
    node_file: str | None = None
    """A file that contains a Node."""
    kubeconfig: str | None = None
    node_name: str | None = None

"""What this machine has published to its Node, as far as its own files say."""

from __future__ import annotations

from capacityd.model.node import NodeState
from capacityd.reconcile import machine_record
from capacityd.worker import runtime_files


def last_seen_node() -> NodeState | None:
    """The Node as the service's last pass has seen it; None if no pass has seen one. Raises CapacitydError."""
    return runtime_files.read_state(runtime_files.runtime_directory()).node


def published_names(last_seen: NodeState | None) -> list[str]:
    """The resources that this machine has published, sorted; only those on the last seen Node, if there is one.

    Raises CapacitydError.
    """
    record = machine_record.read(machine_record.state_directory())
    if record is not None and last_seen is not None:
        record = record.of_node(last_seen.uid)  # None if the record is about another Node
    return sorted(record.all_names) if record is not None else []

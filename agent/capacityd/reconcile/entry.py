"""The quantities of a name: on the Node, in its annotation, and in this machine's record. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from capacityd.model.node import NodeState, annotated_quantities
from capacityd.model.plan import MachineRecord
from capacityd.model.quantity import whole_quantity


@dataclass(frozen=True, slots=True)
class CapacityEntry:
    """A name on the Node, and in both records of it: the Node's annotation and this machine's."""

    name: str
    current: str | None
    """The quantity in the Node's capacity; None if the key is absent."""
    allocatable: str | None
    """The same in the Node's allocatable."""
    annotated: int | None
    """The quantity in the annotation, or the current one if the machine's record confirms it; None if neither names
    it."""
    recorded: int | None
    """The quantity in the machine's record, which is the annotated one if both agree. None unless both name it."""

    @property
    def is_ours(self) -> bool:
        """Whether both records name it."""
        return self.recorded is not None

    @property
    def confirmed(self) -> bool:
        """Whether both records have the same quantity of it."""
        return self.recorded is not None and self.recorded == self.annotated

    def equals(self, quantity: int) -> bool:
        """Whether the Node's capacity has this quantity."""
        return self.current is not None and whole_quantity(self.current) == quantity


def capacity_entries(
    node_state: NodeState, machine_record: MachineRecord | None, configured: Collection[str]
) -> list[CapacityEntry]:
    """The entries of all names that are configured or published, sorted. configured: the names."""
    published = published_quantities(node_state, machine_record)
    capacity, allocatable = node_state.capacity or {}, node_state.allocatable or {}
    entries = []
    for name in sorted({*configured, *published}):
        annotated = published.get(name)
        if annotated is None or (machine_record is None and name not in configured):
            recorded = None
        elif machine_record is None or machine_record.confirms(name, annotated):
            recorded = annotated
        else:
            recorded = machine_record.published.get(name, machine_record.intended.get(name))
        entries.append(CapacityEntry(name, capacity.get(name), allocatable.get(name), annotated, recorded))
    return entries


def published_quantities(node_state: NodeState, machine_record: MachineRecord | None) -> dict[str, int]:
    """What has been published, by name: the annotation, and what the machine's record and the Node agree on.

    So an annotation that somebody else has altered or removed gives up nothing that is still as it was published.
    """
    published = annotated_quantities(node_state.annotation)
    if machine_record is None:
        return published
    for name in {*machine_record.published, *machine_record.intended}:
        current = whole_quantity((node_state.capacity or {}).get(name, ""))
        if current is not None and machine_record.confirms(name, current):
            published[name] = current
    return published

"""What is wrong with a Node, given the machine's readings and the owner of each key.

While something is wrong, the condition must not be True. An entry is a resource, or its label (see node_view).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from capacityd.model.reading import Quantity, Reading, Unknown
from tests.support.judge import node_view as view
from tests.support.judge.memory import Memory
from tests.support.judge.surroundings import Document


class FaultKind(Enum):
    """What is wrong."""

    ALLOCATABLE = "what is allocatable is not what is published"
    ANOTHER = "another value than what is published"
    INCOMPLETE = "a configuration that can't be read, or is empty"
    LABEL = "a label that is not the published number"
    LEFT = "a key that must go"
    LOST = "a number that was published, and is lost while it is unknown"
    LOWER = "a reduction that is due"
    NOT_OURS = "a key of another writer"
    NUMBER = "another number than the machine has"
    UNKNOWN = "something unknown"


LASTING = frozenset({FaultKind.INCOMPLETE, FaultKind.NOT_OURS, FaultKind.UNKNOWN})
"""Faults that capacityd can only report, not repair."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something is wrong with an entry. The entry "" stands for all entries."""

    kind: FaultKind
    entry: str = ""

    @property
    def is_lasting(self) -> bool:
        return self.kind in LASTING

    def __str__(self) -> str:
        return f"{self.kind.value} ({self.entry or 'all'})"


def faults(memory: Memory, node: Document | None, readings: dict[str, Reading]) -> frozenset[Fault]:
    """All that is wrong with this Node if the machine has these readings."""
    return frozenset(_faults(memory, node, readings))


def _faults(memory: Memory, node: Document | None, readings: dict[str, Reading]) -> Iterator[Fault]:
    configuration, listed = memory.configuration, view.published(node)
    is_empty = not configuration.resources and not configuration.broken
    keeps_keys = bool(listed.keys() & view.stored(node).keys())
    if not configuration.complete or (is_empty and keeps_keys):
        yield Fault(FaultKind.INCOMPLETE)
    names = {*configuration.resources, *configuration.broken, *listed, *memory.ours}
    for resource in sorted({view.resource_of(name) for name in names}):
        resource_faults = [*_resource_faults(memory, node, resource, memory.reading(resource, readings))]
        yield from resource_faults
        if not resource_faults:
            yield from _label_faults(memory, node, view.label(resource))


def _resource_faults(memory: Memory, node: Document | None, name: str, reading: Reading) -> Iterator[Fault]:
    """What is wrong with a resource."""
    text, quantity = view.stored(node).get(name), view.published(node).get(name)
    if memory.is_of_plugin(name):
        if isinstance(reading, Unknown) and memory.is_named(name):
            yield Fault(FaultKind.UNKNOWN, name)
        if quantity is not None or (memory.is_configured(name) and isinstance(reading, Quantity)):
            yield Fault(FaultKind.NOT_OURS, name)
        return
    if isinstance(reading, Unknown):
        yield from _unknown_faults(memory, name, text)
    elif isinstance(reading, Quantity):
        if text is not None and not memory.may_write(name):
            yield Fault(FaultKind.NOT_OURS, name)
        else:
            yield from _number_faults(node, name, reading)
    elif name in memory.ours:
        yield from _gone_faults(memory, node, name)
    elif quantity is not None and text is not None:  # listed, but never capacityd's
        yield Fault(FaultKind.NOT_OURS, name)


def _unknown_faults(memory: Memory, name: str, text: str | None) -> Iterator[Fault]:
    """What is wrong with a resource whose reading is unknown. text: the stored number."""
    if memory.is_named(name):
        yield Fault(FaultKind.UNKNOWN, name)
    published = memory.published.get(name, 0)
    is_zeroed = text is not None and view.number(name, text) == 0 and published != 0
    is_lost = text is None or is_zeroed
    if name in memory.ours and is_lost and memory.is_configured(name):
        yield Fault(FaultKind.LOST, name)


def _number_faults(node: Document | None, name: str, reading: Quantity) -> Iterator[Fault]:
    """What is wrong with a resource whose reading is a number."""
    quantity = view.published(node).get(name)
    capacity = view.number(name, view.stored(node).get(name))
    allocatable = view.number(name, view.allocatable(node).get(name))
    if capacity != quantity:
        yield Fault(FaultKind.ANOTHER, name)
    elif allocatable != capacity:
        yield Fault(FaultKind.ALLOCATABLE, name)
    if quantity is None or reading.value > quantity:
        yield Fault(FaultKind.NUMBER, name)
    elif reading.value < quantity:
        yield Fault(FaultKind.LOWER, name)


def _gone_faults(memory: Memory, node: Document | None, name: str) -> Iterator[Fault]:
    """What is wrong with a key of capacityd's that must be removed. A number that another writer has set may stay."""
    text, quantity = view.stored(node).get(name), view.published(node).get(name)
    is_of_others = text is not None and view.number(name, text) not in (memory.published.get(name), 0)
    if is_of_others and quantity is not None:
        yield Fault(FaultKind.LEFT, name)
    elif not is_of_others and (text is not None or quantity is not None):
        yield Fault(FaultKind.LOWER, name)


def _label_faults(memory: Memory, node: Document | None, entry: str) -> Iterator[Fault]:
    """What is wrong with a label. Its resource has no fault."""
    text, listed = view.stored(node).get(entry), view.published(node)
    quantity = listed.get(view.resource_of(entry))
    is_own_number = entry in memory.ours and text == str(memory.published.get(entry))
    if memory.is_configured(entry) and quantity is not None:
        if text is not None and not memory.may_write(entry):
            yield Fault(FaultKind.NOT_OURS, entry)
        elif text != str(quantity) or listed.get(entry) != quantity:
            yield Fault(FaultKind.LABEL, entry)
    elif text is not None and entry in listed and entry not in memory.ours:  # listed, but never capacityd's
        yield Fault(FaultKind.NOT_OURS, entry)
    elif memory.configuration.may_remove and is_own_number:
        yield Fault(FaultKind.LABEL, entry)


def may_fall(memory: Memory, name: str) -> bool:
    """Whether the readings of an entry have been lower than the published number for lower_after."""
    since = memory.lower_since.get(name)
    return since is not None and memory.at - since >= memory.lower_after(memory.at)

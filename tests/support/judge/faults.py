"""What is wrong with a Node, given the machine's readings and the owner of each key.

While something is wrong, the condition must not be True. An entry is a resource, or its label (see node_view).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from capacityd.model.reading import Quantity, Reading, Unknown
from tests.support.judge import node_view as view
from tests.support.judge.ghosts import Ghosts
from tests.support.judge.observations import Document


class What(Enum):
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


LASTING = frozenset({What.INCOMPLETE, What.NOT_OURS, What.UNKNOWN})
"""Faults that capacityd can't repair, but only report."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something is wrong with an entry. The entry "" stands for all."""

    what: What
    entry: str = ""

    @property
    def is_lasting(self) -> bool:
        return self.what in LASTING

    def __str__(self) -> str:
        return f"{self.what.value} ({self.entry or 'all'})"


def faults(ghosts: Ghosts, node: Document | None, readings: dict[str, Reading]) -> frozenset[Fault]:
    """All that is wrong with this Node if the machine has these readings."""
    return frozenset(_faults(ghosts, node, readings))


def _faults(ghosts: Ghosts, node: Document | None, readings: dict[str, Reading]) -> Iterator[Fault]:
    configuration, listed = ghosts.configuration, view.published(node)
    is_empty = not configuration.resources and not configuration.broken
    if not configuration.complete or (is_empty and listed.keys() & view.stored(node).keys()):
        yield Fault(What.INCOMPLETE)
    names = {*configuration.resources, *configuration.broken, *listed, *ghosts.ours}
    for resource in sorted({view.resource_of(name) for name in names}):
        about = frozenset(_of_resource(ghosts, node, resource, ghosts.reading(resource, readings)))
        yield from about
        if not about:
            yield from _of_label(ghosts, node, view.label(resource))


def _of_resource(ghosts: Ghosts, node: Document | None, name: str, reading: Reading) -> Iterator[Fault]:
    """What is wrong with a resource."""
    text, quantity = view.stored(node).get(name), view.published(node).get(name)
    if ghosts.is_plugins(name):
        if isinstance(reading, Unknown) and (ghosts.wanted(name) or name in ghosts.configuration.broken):
            yield Fault(What.UNKNOWN, name)
        if quantity is not None or (ghosts.wanted(name) and isinstance(reading, Quantity)):
            yield Fault(What.NOT_OURS, name)
        return
    if isinstance(reading, Unknown):
        yield from _of_unknown(ghosts, name, text)
    elif isinstance(reading, Quantity):
        if text is not None and not ghosts.may_write(name):
            yield Fault(What.NOT_OURS, name)
        else:
            yield from _of_number(node, name, reading)
    elif name in ghosts.ours:
        yield from _of_gone(ghosts, node, name)
    elif quantity is not None and text is not None:  # listed, but never capacityd's
        yield Fault(What.NOT_OURS, name)


def _of_unknown(ghosts: Ghosts, name: str, text: str | None) -> Iterator[Fault]:
    """What is wrong with a resource whose reading is unknown. text: the stored number."""
    if ghosts.wanted(name) or name in ghosts.configuration.broken:
        yield Fault(What.UNKNOWN, name)
    published = ghosts.published.get(name, 0)
    is_zeroed = text is not None and view.number(name, text) == 0 and published != 0
    is_lost = text is None or is_zeroed
    if name in ghosts.ours and is_lost and ghosts.wanted(name):
        yield Fault(What.LOST, name)


def _of_number(node: Document | None, name: str, reading: Quantity) -> Iterator[Fault]:
    """What is wrong with a resource whose reading is a number."""
    quantity = view.published(node).get(name)
    capacity = view.number(name, view.stored(node).get(name))
    allocatable = view.number(name, view.allocatable(node).get(name))
    if capacity != quantity:
        yield Fault(What.ANOTHER, name)
    elif allocatable != capacity:
        yield Fault(What.ALLOCATABLE, name)
    if quantity is None or reading.value > quantity:
        yield Fault(What.NUMBER, name)
    elif reading.value < quantity:
        yield Fault(What.LOWER, name)


def _of_gone(ghosts: Ghosts, node: Document | None, name: str) -> Iterator[Fault]:
    """What is wrong with a key of capacityd's that must be removed. A number that another writer has set may stay."""
    text, quantity = view.stored(node).get(name), view.published(node).get(name)
    if text is None or view.number(name, text) in (ghosts.published.get(name), 0):
        if text is not None or quantity is not None:
            yield Fault(What.LOWER, name)
    elif quantity is not None:
        yield Fault(What.LEFT, name)


def _of_label(ghosts: Ghosts, node: Document | None, entry: str) -> Iterator[Fault]:
    """What is wrong with a label. Its resource has no fault."""
    text, listed = view.stored(node).get(entry), view.published(node)
    quantity = listed.get(view.resource_of(entry))
    if ghosts.wanted(entry) and quantity is not None:
        if text is not None and not ghosts.may_write(entry):
            yield Fault(What.NOT_OURS, entry)
        elif text != str(quantity) or listed.get(entry) != quantity:
            yield Fault(What.LABEL, entry)
    elif text is not None and entry in listed and entry not in ghosts.ours:  # listed, but never capacityd's
        yield Fault(What.NOT_OURS, entry)
    elif ghosts.configuration.may_remove and entry in ghosts.ours and text == str(ghosts.published.get(entry)):
        yield Fault(What.LABEL, entry)


def may_fall(ghosts: Ghosts, name: str) -> bool:
    """Whether the readings of an entry have been lower than the published number for lower_after."""
    since = ghosts.lower_since.get(name)
    return since is not None and ghosts.at - since >= ghosts.lower_after(ghosts.at)

"""Every small state of a Node with one resource: what a pass may change, and when the condition is True.

The test does not use the program's rules. It repeats what the documentation promises.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from capacityd.model.key import Key
from capacityd.model.published import annotation_text, published_in
from capacityd.model.reading import Quantity, Reading
from capacityd.reconcile.memory import Memory
from tests.support.nodes import UID, node
from tests.unit.reconcile.doubles import ABSENT, UNKNOWN, A, ServerNode, Service

NOW = 1000.0


@dataclass(frozen=True)
class State:
    """A Node, the service's memory, the configuration and the reading."""

    capacity: str | None
    allocatable: str | None
    annotated: int | None
    remembered: int | None
    reading: Reading | None
    """None: the resource is not configured, but another one is."""
    adopts: bool
    lower_after: float
    plugins: frozenset[str] | None

    @property
    def ours(self) -> set[int]:
        """The numbers that capacityd has published. If there are any, the key is capacityd's."""
        return {number for number in (self.annotated, self.remembered) if number is not None}

    @property
    def is_restorable(self) -> bool:
        """Whether the key is certainly no device plugin's, so that a changed number is restored."""
        return self.plugins is not None and A not in self.plugins


def states() -> list[State]:
    texts = (None, "0", "3", "4")  # of capacity and allocatable
    numbers = (None, 3, 4)  # in the annotation and in the memory
    readings: tuple[Reading | None, ...] = (ABSENT, UNKNOWN, Quantity(0), Quantity(3), Quantity(4), None)
    plugins: tuple[frozenset[str] | None, ...] = (frozenset(), frozenset({A}), None)
    return [
        State(*values)
        for values in itertools.product(texts, texts, numbers, numbers, readings, (False, True), (0.0, 10.0), plugins)
    ]


def service_in(state: State) -> Service:
    """A service that finds this state."""
    server = ServerNode()
    server.document = node()
    for place, text in (("capacity", state.capacity), ("allocatable", state.allocatable)):
        server.document["status"][place] = {} if text is None else {A: text}
    if state.annotated is not None:
        server.annotate(annotation_text({Key(A): state.annotated}))
    service = Service(server)
    if state.remembered is not None:
        service.memory = Memory(uid=UID, published={Key(A): state.remembered})
    service.lower_after = state.lower_after
    service.plugins = state.plugins
    service.adopt = {A} if state.adopts else ()
    return service


def make_pass(service: Service, state: State, at: float) -> None:
    """Makes a pass with this state's reading. Without a reading, only another resource, b, is configured."""
    if state.reading is None:
        service.make_pass(at, b=ABSENT)
    else:
        service.make_pass(at, a=state.reading)


def is_right(service: Service, state: State, *, may_be_held: bool) -> bool:
    """Whether the published number is stored and equals the reading. Never while the reading is unknown.

    may_be_held: a number above the reading is right too, because a reduction is held back for some time.
    """
    if state.reading == UNKNOWN:
        return False
    expected = state.reading.value if isinstance(state.reading, Quantity) else None
    published = published_in(service.node.state.annotation).get(Key(A))
    if published is None:
        return expected is None
    is_stored = service.node.state.stored(Key(A)).equals(published)
    is_higher = expected is None or published > expected
    return is_stored and (published == expected or (may_be_held and is_higher))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(12))  # the parts run in parallel
def test_every_small_state(part: int) -> None:
    for state in states()[part::12]:
        service = service_in(state)
        before = service.node.state.stored(Key(A))
        make_pass(service, state, NOW)
        after = service.node.state.stored(Key(A))
        status, _ = service.node.condition
        assert service.node.attempts <= 1, state
        assert (status == "True") == is_right(service, state, may_be_held=state.lower_after > 0), state
        had_number = state.capacity is not None
        if had_number and not state.ours and not state.adopts:
            assert after == before, ("another writer's key was changed", state)
        if had_number and state.reading is None and state.capacity not in {"0", *map(str, state.ours)}:
            assert after.capacity == before.capacity, ("another writer's unconfigured key was changed", state)
        if not state.is_restorable and had_number and not state.ours:
            assert after == before, ("a device plugin's key may have been adopted", state)
        if state.reading == UNKNOWN and state.ours and state.is_restorable:
            number = state.annotated if state.remembered is None else state.remembered
            assert after.equals(number), ("an unknown reading has changed the number", state)
        make_pass(service, state, NOW + 1)
        assert service.node.attempts <= 1, ("the second pass has written", state)
        make_pass(service, state, NOW + 61)  # after lower_after, and after the pause of a denied or limited write
        status, _ = service.node.condition
        assert (status == "True") == is_right(service, state, may_be_held=False), state
        attempts = service.node.attempts
        make_pass(service, state, NOW + 122)
        assert service.node.attempts == attempts, ("a pass has written although nothing changes", state)

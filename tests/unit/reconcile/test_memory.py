"""What a pass remembers: only what a plan uses, and no time in the future."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.other_agent import OtherAgent
from capacityd.model.pace import LONGEST_PAUSE
from capacityd.model.reading import Quantity
from capacityd.reconcile.memory import Conflict, Memory
from capacityd.reconcile.timing import BURST, Denial, WriteTimes
from tests.unit.reconcile.doubles import FOUR, UNKNOWN, A, B, Service

LATER = tuple(90_000.0 + number for number in range(BURST))


@pytest.mark.parametrize("less", [False, True])
def test_times_that_lie_in_the_future_are_forgotten(less: bool) -> None:
    """A snapshot of the machine was restored, and the machine rebooted."""
    service = Service()
    service.reconcile(1000.0, a=FOUR)
    service.memory = replace(
        service.memory,
        write_times=WriteTimes({A: LATER}, LATER),
        lower_since={A: 90_000.0},
        unknown_since={A: 90_000.0, B: 90_000.0},
        denied={A: Denial("a policy", 5, 90_000.0, 93_600.0)},
    )
    a = Quantity(3 if less else 5)
    result = service.reconcile(1100.0, {"hardware"}, a=a, b=UNKNOWN)
    if less:
        assert result.requeue_after == 10.0
        result = service.reconcile(1110.0, {"requeue"}, a=a, b=UNKNOWN)
    assert service.capacity[A] == str(a.value)
    assert service.condition == "False"
    assert result.requeue_after is not None
    assert result.requeue_after <= 60.0


def test_a_conflict_in_the_future_is_over_after_a_minute() -> None:
    service = Service()
    service.memory = Memory(conflict=Conflict("another writer", 90_000.0, 90_000.0))
    assert service.reconcile(1000.0, {"hardware"}, a=FOUR).failure
    service.memory = replace(service.memory, conflict=Conflict("another writer", 1000.0, 1000.0))
    assert not service.reconcile(1060.0, {"retry"}, a=FOUR).failure


times = st.floats(0, 1e6)
several_times = st.lists(times, max_size=BURST).map(sorted).map(tuple)


@given(
    st.builds(
        Memory,
        lower_since=st.dictionaries(st.just(A), times),
        unknown_since=st.dictionaries(st.just(A), times),
        write_times=st.builds(WriteTimes, st.dictionaries(st.just(A), several_times), several_times),
        denied=st.dictionaries(st.just(A), st.builds(Denial, st.just(""), st.none(), times, times)),
        conflict=st.none() | st.builds(Conflict, st.just(""), times, times),
        other_agent=st.none() | st.builds(OtherAgent, times),
        node_at=times,
    ),
    times,
)
def test_no_time_lies_far_in_the_future(memory: Memory, uptime: float) -> None:
    """Fields of any name are checked, so that the test covers fields that are added later."""
    assert all(at <= uptime + LONGEST_PAUSE for at in _floats(memory.without_future(uptime)))


def _floats(value: object) -> list[float]:
    if is_dataclass(value) and not isinstance(value, type):
        return _floats([getattr(value, field.name) for field in fields(value)])
    if isinstance(value, Mapping):
        return _floats(list(value.values()))
    if isinstance(value, list | tuple):
        return [number for item in value for number in _floats(item)]
    return [value] if isinstance(value, float) else []

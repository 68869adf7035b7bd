"""How many patches it takes to isolate what is denied."""

from __future__ import annotations

import math
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.reconcile.isolation import FEW, Isolation


def isolate(count: int, denied: Collection[str]) -> tuple[set[str], int, bool]:
    """The names that are found to be denied, the patches with the first one, and whether one was accepted."""
    names = tuple(f"n{number:04}" for number in range(count))
    isolation, accepted_names, patches = Isolation.of(names), set[str](), 1
    while tried := isolation.next_names:
        accepted = not {*denied} & {*tried}
        accepted_names |= set(tried) if accepted else set()
        patches += 1
        isolation = isolation.after(accepted=accepted)
    return {*names} - accepted_names, patches, bool(accepted_names)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1))))
def test_what_is_denied_is_found_and_nothing_else(case: tuple[int, set[int]]) -> None:
    count, numbers = case
    denied = {f"n{number:04}" for number in numbers}
    found, patches, _ = isolate(count, denied)
    assert found == denied
    if count <= FEW:
        assert patches <= 1 + count


@pytest.mark.parametrize("count", [16, 100, 500, 1000])
def test_one_of_many_costs_about_twice_the_logarithm(count: int) -> None:
    patches = [isolate(count, {f"n{number:04}"})[1] for number in range(count)]
    assert max(patches) <= 2 * math.log2(count) + 4
    assert count != 500 or max(patches) <= 22

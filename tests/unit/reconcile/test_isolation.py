"""How many patches it takes to isolate what is denied."""

from __future__ import annotations

import math
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.reconcile import writing
from capacityd.reconcile.writing import FEW


def isolate(count: int, denied: Collection[str]) -> tuple[set[str], int]:
    """The names that are found to be denied, and the number of patches with the first one."""
    names = tuple(f"n{number:04}" for number in range(count))
    accepted_names, patches = set[str](), 1

    def accepts(tried: tuple[str, ...]) -> bool:
        nonlocal patches
        patches += 1
        accepted = not {*denied} & {*tried}
        accepted_names.update(tried if accepted else ())
        return accepted

    writing.isolate(names, accepts)
    return {*names} - accepted_names, patches


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1))))
def test_what_is_denied_is_found_and_nothing_else(case: tuple[int, set[int]]) -> None:
    count, numbers = case
    denied = {f"n{number:04}" for number in numbers}
    found, patches = isolate(count, denied)
    assert found == denied
    if count <= FEW:
        assert patches <= 1 + count


@pytest.mark.parametrize("count", [16, 100, 500, 1000])
def test_one_of_many_costs_about_twice_the_logarithm(count: int) -> None:
    patches = [isolate(count, {f"n{number:04}"})[1] for number in range(count)]
    assert max(patches) <= 2 * math.log2(count) + 4
    assert count != 500 or max(patches) <= 22

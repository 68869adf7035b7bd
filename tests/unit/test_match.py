"""Whether a device counts: yes, no, or not to be known. Kleene's logic, checked against all that the unknown may be."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.errors import HostError
from capacityd.kinds import Glob, Test
from capacityd.match import holds, judge
from capacityd.model import Table, Value

KEYS = ("a", "b", "c")
State = dict[str, bool | None]


def table(*keys: str) -> Table:
    return Table(tuple(Test(key, (Glob("yes"),), "yes") for key in keys))


def reader(state: State) -> Callable[[str], Value]:
    def read(key: str) -> Value:
        if state[key] is None:
            raise HostError("can't be read")
        return "yes" if state[key] else "no"

    return read


@pytest.mark.parametrize(
    ("a", "b", "both", "either"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (True, None, None, True),
        (False, False, False, False),
        (False, None, False, None),
        (None, None, None, None),
    ],
)
def test_truth_table(a: bool | None, b: bool | None, both: bool | None, either: bool | None) -> None:
    for state in ({"a": a, "b": b}, {"a": b, "b": a}):
        read = reader(state)
        assert holds(table("a", "b").tests, read).counts is both
        assert judge([table("a"), table("b")], [], read).counts is either


@pytest.mark.parametrize(
    ("wanted", "excepted", "counts"),
    [
        (True, True, False),
        (True, False, True),
        (True, None, None),
        (False, True, False),
        (False, False, False),
        (False, None, False),
        (None, True, False),
        (None, False, None),
        (None, None, None),
    ],
)
def test_truth_table_of_except(wanted: bool | None, excepted: bool | None, counts: bool | None) -> None:
    read = reader({"a": wanted, "b": excepted})
    assert judge([table("a")], [table("b")], read).counts is counts


tables = st.lists(st.lists(st.sampled_from(KEYS), max_size=3).map(lambda keys: table(*keys)), max_size=3)
states = st.fixed_dictionaries({key: st.sampled_from([True, False, None]) for key in KEYS})


@given(st.lists(tables, min_size=2, max_size=2), states)
def test_says_what_holds_however_the_unknown_turns_out(asked: list[list[Table]], state: State) -> None:
    """A yes or no is what every way of filling in the unknown gives. So the unknown never decides anything."""
    wanted, excepts = asked
    said = judge(wanted, excepts, reader(state)).counts
    unknown = [key for key, value in state.items() if value is None]
    ways = [state | dict(zip(unknown, way, strict=True)) for way in product([True, False], repeat=len(unknown))]
    if said is not None:
        assert {judge(wanted, excepts, reader(way)).counts for way in ways} == {said}


@given(tables, tables, st.fixed_dictionaries({key: st.booleans() for key in KEYS}))
def test_is_plain_logic_where_all_is_known(wanted: list[Table], excepts: list[Table], state: dict[str, bool]) -> None:
    def any_of(asked: list[Table]) -> bool:
        return any(all(state[test.key] for test in t.tests) for t in asked)

    verdict = judge(wanted, excepts, reader(dict(state)))
    assert verdict.counts is (any_of(wanted) and not any_of(excepts))


def test_an_empty_table_matches_everything() -> None:
    assert judge([table()], [], reader({})).counts is True


def test_a_no_is_explained() -> None:
    read = reader({"a": False, "b": False})
    assert (
        judge([table("a"), table("b"), table("a")], [], read).reason == 'a is "no", wanted yes; b is "no", wanted yes'
    )
    yes = reader({"a": True, "b": True})
    assert judge([table("a")], [table("b")], yes).reason == "except: b is yes"
    unread = reader({"a": None, "b": None})
    for tables in ([table("a")], [table("a", "b")], [table("a"), table("b")]):
        assert judge(tables, [], unread).reason == "a: can't be read"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "missing"),
        ("", "missing"),
        ((), "missing"),
        (True, "true"),
        (False, "false"),
        (("x", "y"), "x, y"),
        (5, "5"),
    ],
)
def test_values_are_said_plainly(value: Value, said: str) -> None:
    assert holds(table("a").tests, lambda _: value).reason == f"a is {said}, wanted yes"


def test_what_follows_a_no_is_still_read_only_as_far_as_needed() -> None:
    asked: list[str] = []

    def read(key: str) -> Value:
        asked.append(key)
        return "no"

    judge([table("a", "b", "c")], [table("c")], read)
    assert asked == ["a"]

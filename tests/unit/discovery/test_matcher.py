"""Whether a device matches, in Kleene's three-valued logic: yes, no, or unknown if a value could not be read."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from capacityd.discovery.matcher import match_all, match_device
from capacityd.model.errors import AmbiguousValue, HostError
from capacityd.schema.config import Table
from capacityd.schema.matchers import GlobMatcher, KeyMatcher, Value

State = dict[str, bool | None]


def table(*keys: str) -> Table:
    """A table that matches a device if the value of each of these keys is "yes"."""
    return Table(tuple(KeyMatcher(key, (GlobMatcher("yes"),), "yes") for key in keys))


def reader(state: State) -> Callable[[str], Value]:
    """A function that reads the value of a key: "yes" for True, "no" for False. None: the read fails."""

    def read(key: str) -> Value:
        if state[key] is None:
            raise HostError("can't be read")
        return "yes" if state[key] else "no"

    return read


RANK = (False, None, True).index  # in Kleene's logic, "and" is the minimum of these ranks, "or" the maximum


@pytest.mark.parametrize(("a", "b"), [*product((False, None, True), repeat=2)])
def test_tables_and_exceptions_follow_kleenes_logic(a: bool | None, b: bool | None) -> None:
    """A device matches if it passes all keys of one table, and matches no table under `except`."""
    read = reader({"a": a, "b": b})
    assert match_all(table("a", "b").tests, read).matches is min(a, b, key=RANK)
    assert match_device([table("a"), table("b")], [], read).matches is max(a, b, key=RANK)
    not_b = None if b is None else not b
    assert match_device([table("a")], [table("b")], read).matches is min(a, not_b, key=RANK)


def test_the_reason_names_the_keys_that_decided() -> None:
    read = reader({"a": False, "b": False})
    assert match_device([table("a"), table("b"), table("a")], [], read).reason == "a does not match; b does not match"
    yes = reader({"a": True, "b": True})
    assert match_device([table("a")], [table("b")], yes).reason == "except: b matches yes"
    unread = reader({"a": None, "b": None})
    for tables in ([table("a")], [table("a", "b")], [table("a"), table("b")]):
        assert match_device(tables, [], unread).reason == "a: can't be read"


def test_nothing_is_read_after_the_first_mismatch() -> None:
    asked: list[str] = []

    def read(key: str) -> Value:
        asked.append(key)
        return "no"

    match_device([table("a", "b", "c")], [table("c")], read)
    assert asked == ["a"]


@pytest.mark.parametrize(("possible", "matches"), [(("no", "other"), False), (("no", "yes"), None), (("yes",), None)])
def test_an_unknown_value_fails_a_test_that_no_possible_value_passes(
    possible: tuple[str, ...], matches: bool | None
) -> None:
    """possible: the values that the unknown value may have."""

    def read(key: str) -> Value:
        raise AmbiguousValue(HostError("can't be read"), possible)

    assert match_all(table("a").tests, read).matches is matches

"""Decides whether a device matches: yes, no, or unknown because a value could not be read.

The logic is Kleene's, with three values. A false test decides that a table does not match, even if other tests are
unknown. A matching table decides that a list of tables matches, even if other tables are unknown. Reasons are
formatted only on demand, because a machine may have thousands of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from capacityd.model.errors import AmbiguousValue, Cause, HostError
from capacityd.model.reading import Contribution
from capacityd.schema.config import Table
from capacityd.schema.device import Device
from capacityd.schema.matchers import KeyMatcher, Value, is_missing
from capacityd.schema.toml_values import describe_toml_value


@dataclass(frozen=True, slots=True)
class MatchResult:
    """Whether a device matches, and why."""

    matches: bool | None
    """None: it is unknown whether the device matches. The field error says why."""
    mismatches: tuple[tuple[KeyMatcher, Value], ...] = ()
    """If no table matches: the first failed test of each table, and the device's value."""
    except_tests: tuple[KeyMatcher, ...] = ()
    """The tests of the `except` table that excludes the device; empty if no `except` table does."""
    matching_tests: tuple[KeyMatcher, ...] = ()
    """The tests of the table that matches."""
    unreadable_key: str = ""
    """The key that could not be read; "" if no such key is the reason."""
    error: HostError | None = None
    """Why the key or the measure could not be read, or why the device may be another path to an earlier device."""

    @property
    def reason(self) -> str:
        """The rule that excluded the device, or the error; "" if the device matches.

        Contains no value of the device, because every user may read the reason.
        """
        if self.error is not None:
            return f"{self.unreadable_key}: {self.error}" if self.unreadable_key else str(self.error)
        if self.except_tests:
            tests = [f"{test.key} matches {test.text}" for test in self.except_tests]
            return f"except: {' and '.join(tests)}"
        mismatches = [f"{test.key} does not match" for test, _ in self.mismatches]
        return "; ".join(dict.fromkeys(mismatches))  # without duplicates

    @property
    def detail(self) -> str:
        """The error's detail, which may quote what was read; "" if the error has no detail."""
        return self.error.detail if self.error is not None else ""

    @property
    def cause(self) -> Cause:
        """The cause of an unknown reading with this result."""
        return self.error.cause if self.error is not None else Cause.UNREADABLE


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that a detector has found, whether it counts, and how much."""

    device: Device
    match: MatchResult
    contribution: Contribution | None = None
    """None: the device does not count, or may not count."""
    share: int = 0
    """The amount of the contribution, in base units."""


def match_device(tables: Sequence[Table], excepts: Sequence[Table], read: Callable[[str], Value]) -> MatchResult:
    """Whether a device counts: at least one table matches it, and no `except` table does.

    read: takes a key and returns the device's value. If read raises HostError, the value is unknown.
    """
    inclusion = _match_any(tables, read)
    if inclusion.matches is False:  # not None, which means unknown
        return inclusion
    exclusion = _match_any(excepts, read)
    if exclusion.matches:
        return MatchResult(matches=False, except_tests=exclusion.matching_tests)
    if exclusion.matches is None:  # unknown whether an `except` table excludes the device
        return exclusion
    return inclusion


def unknown_if_uncertain(result: MatchResult, uncertain_because: str) -> MatchResult:
    """Changes a match to unknown if the device may be another path to a device that was already found.

    uncertain_because: why the device may be another path; "" for a separate device.
    """
    if result.matches and uncertain_because:
        return MatchResult(matches=None, error=HostError(uncertain_because))
    return result


def match_all(tests: Sequence[KeyMatcher], read: Callable[[str], Value]) -> MatchResult:
    """Whether all tests match the values that read() returns."""
    first_unknown: MatchResult | None = None
    for test in tests:
        try:
            value = read(test.key)
        except HostError as e:
            if isinstance(e, AmbiguousValue) and not test.matches(e.possible):  # none of the possible values matches
                return MatchResult(matches=False, mismatches=((test, e.possible),))
            if first_unknown is None:
                first_unknown = MatchResult(matches=None, unreadable_key=test.key, error=e)
            continue  # a later test may fail, and a failed test decides
        if not test.matches(value):
            return MatchResult(matches=False, mismatches=((test, value),))
    return first_unknown or MatchResult(matches=True)


def _match_any(tables: Sequence[Table], read: Callable[[str], Value]) -> MatchResult:
    """Whether at least one table matches."""
    mismatches: list[tuple[KeyMatcher, Value]] = []
    first_unknown: MatchResult | None = None
    for table in tables:
        result = match_all(table.tests, read)
        if result.matches:
            return replace(result, matching_tests=table.tests)
        if result.matches is None:
            first_unknown = first_unknown or result
        mismatches.extend(result.mismatches)
    if first_unknown is not None:
        return first_unknown
    distinct = dict.fromkeys(mismatches)  # without duplicates: all tables may have the same default test
    return MatchResult(matches=False, mismatches=tuple(distinct))


def describe_value(value: Value) -> str:
    """A value as text, for `probe --explain`."""
    if is_missing(value):
        return "missing"
    if isinstance(value, tuple):
        return ", ".join(value)
    return describe_toml_value(value)

"""Whether a device counts: yes, no, or not to be known because something could not be read. Pure but for the reader.

Three-valued logic, after Kleene: a no decides a table whatever else is unknown, and a yes decides a list of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capacityd.errors import HostError
from capacityd.kinds import Test
from capacityd.model import Table, Value


@dataclass(frozen=True, slots=True)
class Verdict:
    """counts: None if it can't be known. reason: by which rule it does not count, or what can't be read."""

    counts: bool | None
    reason: str = ""


YES = Verdict(True)


def judge(tables: Sequence[Table], excepts: Sequence[Table], read: Callable[[str], Value]) -> Verdict:
    """counts: None if it can't be known. reason: by which rule it does not count, or what could not be read."""
    wanted = _any(tables, read)
    if wanted.counts is False or not excepts:
        return wanted
    excepted = _any(excepts, read)
    if excepted.counts:
        return Verdict(False, f"except: {excepted.reason}")
    return excepted if excepted.counts is None else wanted


def holds(tests: Sequence[Test], read: Callable[[str], Value]) -> Verdict:
    """Whether all tests hold."""
    doubt = None
    for test in tests:
        try:
            value = read(test.key)
        except HostError as e:
            doubt = doubt or Verdict(None, f"{test.key}: {e}")
            continue
        if not test.matches(value):
            return Verdict(False, f"{test.key} is {_said(value)}, wanted {test.text}")
    return doubt or YES


def _any(tables: Sequence[Table], read: Callable[[str], Value]) -> Verdict:
    reasons: list[str] = []
    doubt = None
    for table in tables:
        verdict = holds(table.tests, read)
        if verdict.counts:
            return Verdict(True, " and ".join(f"{t.key} is {t.text}" for t in table.tests))
        if verdict.counts is None:
            doubt = doubt or verdict
        elif verdict.reason not in reasons:
            reasons.append(verdict.reason)
    return doubt or Verdict(False, "; ".join(reasons))


def _said(value: Value) -> str:
    if value is None or value == "" or value == ():
        return "missing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else ", ".join(value) if isinstance(value, tuple) else str(value)

"""Whether a device counts: yes, no, or not to be known because something could not be read. Pure but for the reader.

Three-valued logic, after Kleene: a no decides a table whatever else is unknown, and a yes decides a list of tables.
Nothing is put into words before somebody asks for the reason: of thousands of devices nobody does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capacityd.errors import HostError
from capacityd.kinds import Test
from capacityd.model import Table, Value


@dataclass(frozen=True, slots=True)
class Verdict:
    """counts: None if it can't be known, for error at the key unread. differs: the tests by which it does not count,
    one of each table, with what the device says; or excepted: those by which it is left out. met: those that hold.
    """

    counts: bool | None
    differs: tuple[tuple[Test, Value], ...] = ()
    excepted: tuple[Test, ...] | None = None
    met: tuple[Test, ...] = ()
    unread: str = ""
    error: HostError | None = None

    @property
    def reason(self) -> str:
        """By which rule it does not count, or what can't be read; "" if it counts."""
        if self.error is not None:
            return f"{self.unread}: {self.error}" if self.unread else str(self.error)
        if self.excepted is not None:
            return except_text(self.excepted)
        return "; ".join(f"{test.key} is {shown(value)}, wanted {test.text}" for test, value in self.differs)


YES = Verdict(True)


def judge(tables: Sequence[Table], excepts: Sequence[Table], read: Callable[[str], Value]) -> Verdict:
    """Whether a device that reads like this counts: any of the tables matches it, and no except does."""
    wanted = _any(tables, read)
    if wanted.counts is False:
        return wanted
    excepted = _any(excepts, read)
    if excepted.counts:
        return Verdict(False, excepted=excepted.met)
    return excepted if excepted.counts is None else wanted


def holds(tests: Sequence[Test], read: Callable[[str], Value]) -> Verdict:
    """Whether all tests hold."""
    doubt = None
    for test in tests:
        try:
            value = read(test.key)
        except HostError as e:
            doubt = doubt or Verdict(None, unread=test.key, error=e)
            continue
        if not test.matches(value):
            return Verdict(False, ((test, value),))
    return doubt or YES


def _any(tables: Sequence[Table], read: Callable[[str], Value]) -> Verdict:
    differs: tuple[tuple[Test, Value], ...] = ()
    doubt = None
    for table in tables:
        verdict = holds(table.tests, read)
        if verdict.counts:
            return Verdict(True, met=table.tests)
        if verdict.counts is None:
            doubt = doubt or verdict
        elif verdict.differs[0] not in differs:
            differs += verdict.differs
    return doubt or Verdict(False, differs)


def except_text(tests: Sequence[Test]) -> str:
    """By what a device is left out."""
    return "except: " + " and ".join(f"{t.key} is {t.text}" for t in tests)


def shown(value: Value) -> str:
    """What a device says under a key, as a reason names it."""
    if value is None or value == "" or value == ():
        return "missing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else ", ".join(value) if isinstance(value, tuple) else str(value)

"""A measured value with its limit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table. most: the limit. None: the value has no limit, and only explains another one."""

    what: str
    value: float
    form: str
    most: float | None = None

    @property
    def missed(self) -> bool:
        return self.most is not None and self.value > self.most

    def line(self) -> str:
        most = "" if self.most is None else self.form.format(self.most)
        return (
            f"{self.what:<66}{self.form.format(self.value):>10}{most:>10}{'  MISSED' if self.missed else ''}".rstrip()
        )

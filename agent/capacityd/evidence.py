"""What a quantity rests on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """A device that counted. contributes: how much, in the resource's unit, before reduce and reserve."""

    device: str
    contributes: int | float
    note: str = ""

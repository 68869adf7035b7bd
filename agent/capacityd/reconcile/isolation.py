"""Isolates the denied changes of a patch, so that the other changes are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

MAX_ONE_BY_ONE = 8
"""isolate() tries at most this number of names one by one."""


def isolate(names: tuple[T, ...], write_part: Callable[[tuple[T, ...]], bool]) -> None:
    """Isolates the denied changes, after the API server has denied a patch with all of these names.

    write_part: tries to write the changes of some names, records the API server's answer, and returns whether the API
    server has accepted them. If one of n changes is denied, halving takes about 2 * log2(n) patches. A few names are
    tried one by one, because this takes fewer patches if several changes are denied.
    """
    # Invariant of both loops: at least one of the names is denied. So a single name is the denied one.
    while len(names) > MAX_ONE_BY_ONE:
        middle = (len(names) + 1) // 2
        first_half, second_half = names[:middle], names[middle:]
        if not write_part(first_half):
            isolate(first_half, write_part)
            if write_part(second_half):
                return  # all denied changes were in the first half
        names = second_half
    while len(names) > 1:
        first, others = names[:1], names[1:]
        if not write_part(first):
            # The denied name is found. All others may be accepted, so each of them is tried.
            for name in others:
                write_part((name,))
            return
        names = others

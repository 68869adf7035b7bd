"""Isolates the denied changes of a patch, so that they do not block the others. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

MAX_ONE_BY_ONE = 8
"""isolate() tries the names of a denied part one by one if there are at most this many."""


def isolate(names: tuple[T, ...], write_part: Callable[[tuple[T, ...]], bool]) -> None:
    """Isolates the denied changes, after the API server has denied a patch with all of these names.

    write_part: tries to write the changes of some names, records what the API server answers, and returns whether it
    accepts them. Halving takes about 2 * log2(n) patches for one denied change of n. A few changes are tried one by
    one: this takes fewer patches if several are denied.
    """
    # Each round of both loops begins with names of which at least one is denied. If one name is left, it is that one.
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
            # The others need not contain a denied change, so each of them is tried, also the last one.
            for name in others:
                write_part((name,))
            return
        names = others

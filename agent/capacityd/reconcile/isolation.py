"""Isolates the denied changes of a patch, so that they do not block the others. Pure."""

from __future__ import annotations

from collections.abc import Callable

FEW = 8
"""isolate() tries a denied part with at most this many names name by name."""


def isolate(names: tuple[str, ...], accepts: Callable[[tuple[str, ...]], bool]) -> None:
    """Isolates the denied changes, after the API server has denied a patch with all of these names.

    accepts: tries to write the changes of some names, returns whether the API server has accepted them, and remembers
    which it has denied. Halving takes about 2 * log2(n) patches for one denied change of n. A few changes are tried one
    by one: this takes fewer patches if several are denied.
    """
    # The names always contain a denied change. So a single name needs no attempt.
    while len(names) > 1:
        are_few = len(names) <= FEW
        count = 1 if are_few else (len(names) + 1) // 2
        tried, rest = names[:count], names[count:]
        if accepts(tried):  # then the rest contains a denied change
            names = rest
            continue
        if are_few:
            for name in rest:
                accepts((name,))
            return
        isolate(tried, accepts)
        if accepts(rest):
            return
        names = rest

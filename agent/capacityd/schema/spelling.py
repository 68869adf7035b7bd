"""Suggests the word or the unit that was probably meant, as the end of a message about an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def expected(word: str, words: Sequence[str]) -> str:
    """The end of a message about an unknown word: the valid word that was probably meant, or else all valid words."""
    longer = [valid for valid in words if valid.startswith(f"{word}_")]  # "product" was probably meant as product_name
    if longer:
        quoted = " or ".join(f'"{valid}"' for valid in longer)
        return f"did you mean {quoted}?"
    mistyped = word[:80].lower()  # only the beginning, because difflib takes quadratic time
    candidates = {}  # in lower case -> as it is written
    for valid in words:
        lower = valid.lower()
        # A mistyped word usually keeps its first or its last letter.
        if lower.startswith(mistyped[:1]) or lower.endswith(mistyped[-1:]):
            candidates[lower] = valid
    for similar in get_close_matches(mistyped, candidates, n=1):
        return f'did you mean "{candidates[similar]}"?'
    return f"must be one of {', '.join(words)}"


def expected_unit(unit: str, units: Iterable[str]) -> str:
    """The end of a message about an unknown unit: the valid unit that was probably meant, or else all valid units.

    A unit was probably meant if it differs only in case, is written with "bps" instead of "bit/s", or lacks its end.
    unit: the unknown unit, or "" for a missing unit.
    """
    mistyped = unit.lower().replace("bps", "bit/s")
    spellings = [f"{mistyped}{end}" for end in ("", "/s", "bit/s", "b", "hz")]
    for valid in units:
        if unit and valid.lower() in spellings:
            return f'did you mean "{valid}"?'
    return f"must be one of {', '.join(units)}"

"""Suggests the word or the unit that was probably meant, as the end of a message about an unknown word or unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_MAX_COMPARED_LENGTH = 80
"""Number of characters of a word to compare, because difflib takes quadratic time."""


def suggest_word(word: str, words: Sequence[str]) -> str:
    """The end of a message about an unknown word: the valid word that was probably meant, or else all valid words."""
    prefix = f"{word}_"  # for example, "product" may be meant as product_name
    longer_words = [f'"{valid}"' for valid in words if valid.startswith(prefix)]
    if longer_words:
        return f"did you mean {' or '.join(longer_words)}?"
    mistyped = word[:_MAX_COMPARED_LENGTH].lower()
    candidates: dict[str, str] = {}  # valid word in lower case -> valid word
    for valid in words:
        lower = valid.lower()
        has_same_first_letter = lower.startswith(mistyped[:1])
        has_same_last_letter = lower.endswith(mistyped[-1:])
        if has_same_first_letter or has_same_last_letter:  # a typing mistake usually leaves one of the two letters
            candidates[lower] = valid
    similar = get_close_matches(mistyped, candidates, n=1)
    if similar:
        return f'did you mean "{candidates[similar[0]]}"?'
    return f"must be one of {', '.join(words)}"


def suggest_unit(unit: str, units: Iterable[str]) -> str:
    """The end of a message about an unknown unit: the valid unit that was probably meant, or else all valid units.

    The unknown unit may differ from the valid unit in case, have "bps" instead of "bit/s", or lack the last letters.
    unit: the unknown unit, or "" for a missing unit.
    """
    all_units = f"must be one of {', '.join(units)}"
    if not unit:
        return all_units
    mistyped = unit.lower().replace("bps", "bit/s")
    completions = [f"{mistyped}{end}" for end in ("", "/s", "bit/s", "b", "hz")]
    for valid in units:
        if valid.lower() in completions:
            return f'did you mean "{valid}"?'
    return all_units

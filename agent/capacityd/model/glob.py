"""Globs in a configuration: errors that fnmatch accepts as a pattern that never matches."""

from __future__ import annotations

import re

_REGEX = re.compile(r"^\^|\$\Z|^\.\*|\.\+|\]\+|\\[dwsDWS.]|\([^)]*\|[^)]*\)")


def check_glob(text: str) -> None:
    """Raises ValueError for a regular expression and for an unclosed class."""
    if _REGEX.search(text):
        raise ValueError(f'"{text}" is a regular expression, but text is matched as a glob{_hint(text)}')
    if _has_unclosed_class(text):
        raise ValueError(f'"{text}" has a "[" without a "]"; for the character itself write "[[]"')


def _hint(regex: str) -> str:
    """The same as a glob, if it is simple."""
    glob = regex.replace("\\.", ".").replace("\\d", "[0-9]").replace(".*", "*").replace(".+", "?*")
    glob = glob[1:] if glob.startswith("^") else f"*{glob}"
    glob = glob[:-1] if glob.endswith("$") else f"{glob}*"
    glob = re.sub(r"\*+", "*", glob)
    return "" if _REGEX.search(glob) or not {*"\\()|+"}.isdisjoint(glob) else f'; write "{glob}"'


def _has_unclosed_class(text: str) -> bool:
    """Whether fnmatch takes a "[" as a plain character, because no class ends with "]"."""
    at = text.find("[")
    while at >= 0:
        first = at + 1 + text.startswith("!", at + 1)  # a "]" at the start of a class is part of it
        end = text.find("]", first + 1)
        if end < 0:
            return True
        at = text.find("[", end + 1)
    return False

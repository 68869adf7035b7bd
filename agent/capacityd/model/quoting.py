"""Quotes text from the machine for `probe --explain`. Messages that anybody may read contain only the text's length.

The text may be another user's secret: a link may lead to a file that only root can read, and a program may print its
password.
"""

from __future__ import annotations

from capacityd.model.text import plural

_MAX_QUOTED = 500
"""The number of characters after which a quoted text is cut."""


def quoted(text: str) -> str:
    """A printable text in quotes, cut after _MAX_QUOTED characters."""
    return f'"{shortened(text)}"'


def shortened(text: str, limit: int = _MAX_QUOTED) -> str:
    """The text, cut after this number of characters."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def length_text(text: str) -> str:
    """The length of a text, for a message that must not contain the text."""
    return plural(len(text), "character")


def explain_hint(detail: str) -> str:
    """The end of a message about a reading: the command that shows the detail; "" if there is no detail."""
    return '; "sudo capacityd probe --explain" shows the text' if detail else ""

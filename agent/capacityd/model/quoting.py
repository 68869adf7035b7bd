"""Text that was read, for `probe --explain`, and its length, for the messages that anybody may read.

Such text may be another user's secret: a link may lead to a file of root, and a program may print its password.
"""

from __future__ import annotations

from capacityd.model.text import plural

_MAX_QUOTED = 500
"""The number of characters at which quoted() and shortened() cut a text."""


def quoted(text: str) -> str:
    """Printable text in quotes, cut at _MAX_QUOTED characters."""
    return f'"{shortened(text)}"'


def shortened(text: str) -> str:
    """The text, cut at _MAX_QUOTED characters."""
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"


def length_text(text: str) -> str:
    """The length of a text, for a message that must not contain it."""
    return plural(len(text), "character")


def how_to_see(detail: str) -> str:
    """The end of a message about a reading: how to see the text that could not be used; "" if there is none."""
    return '; "sudo capacityd probe --explain" shows the text' if detail else ""

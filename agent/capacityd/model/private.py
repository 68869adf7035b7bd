"""Text that only the user who reads it by hand may see: what a file, a program or a server says.

Such text may be another user's secret: a link may lead to a file of root, a program may print its password, a proxy may
answer with a page of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capacityd.model.text import plural

_MAX_QUOTED = 500
"""The number of characters at which quoted() and shortened() cut a text."""


@dataclass(frozen=True, slots=True)
class Private:
    """Private text, printable. str(), repr() and, by default, the codec leave it out: only a command that a user runs
    reads `text`."""

    text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return "(not shown)"

    def __bool__(self) -> bool:
        return bool(self.text)


NOTHING = Private()
"""No text."""


def quoted(text: str) -> str:
    """Printable text in quotes, cut at _MAX_QUOTED characters."""
    return f'"{shortened(text)}"'


def shortened(text: str) -> str:
    """The text, cut at _MAX_QUOTED characters."""
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"


def length_text(text: str) -> str:
    """The length of a text, for a message that must not contain it."""
    return plural(len(text), "character")


def how_to_see(text: Private) -> str:
    """The end of a message about a reading: how to see its private text; "" if there is none."""
    return '; "sudo capacityd probe --explain" shows the text' if text else ""

"""Text that matches nothing on any machine, because of how the values of its key are written: what was meant instead.

The JSON Schema has the same patterns, so they hold only what its dialect of regular expressions knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """One way to write text that matches nothing."""

    pattern: str
    """A regular expression that is found in such text."""
    remedy: Callable[[str], str]
    """The text -> why it matches nothing and what to write, as the end of a sentence."""

    def found_in(self, text: str) -> bool:
        return re.search(self.pattern, text) is not None


def _list_of(text: str) -> str:
    parts = ", ".join(f'"{part.strip()}"' for part in re.split("[|,]", text) if part.strip())
    return f"is a single name; to match any of several, write a list: [{parts}]"


def _absolute(text: str) -> str:
    """by-id/* is in a folder of /dev whose name depends on the device: disk, serial, …"""
    return f'is not below /dev; write "/dev/{"*/" if text.startswith("by-") else ""}{text}"'


NEGATION = Mistake(
    "^!.",
    lambda text: (
        f'is not a negation: exclude devices with "except"; to match a value that begins with "!", write "?{text[1:]}"'
    ),
)
"""fnmatch knows "!" in a class only."""
SEVERAL_NAMES = Mistake(r"^[^\[]*[|,]", _list_of)
"""No name of an interface or a disk has these characters. If one does, a glob with a class matches it: "a[,]b"."""
ALTERNATIVES = Mistake(r"^[^\[]*[|]", _list_of)
"""The same where a name can have commas."""
PATH = Mistake(r"^/.*[^/]", lambda text: f'is a path; write the name: "{text.rstrip("/").rpartition("/")[2]}"')
NOT_IN_DEV = Mistake(r"^[^/*?\[]", _absolute)
NOT_ABSOLUTE = Mistake(r"^[^/*?\[]", lambda text: f'is not an absolute path; write "/{text}"')
FINAL_SLASH = Mistake("[^/]/+$", lambda text: f'ends with "/"; write "{text.rstrip("/")}"')
NO_PCI_DOMAIN = Mistake("^[0-9a-fA-F]{1,3}:", lambda text: f'has no domain; write "0000:{text}"')
"""A domain has at least four digits."""

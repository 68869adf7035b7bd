"""Describes characters that people do not see or mistake for others: spaces, controls, letters of other alphabets."""

from __future__ import annotations

import unicodedata

_CONTROLS = {"\0": "NUL", "\r": "carriage return", "\x1b": "escape", "\x7f": "delete"}
_REMEDIES = {
    "Zs": "write a plain space",
    "Zl": "write a plain line end",
    "Zp": "write a plain line end",
    "Pi": "quotes must be straight: \" or '",
    "Pf": "quotes must be straight: \" or '",
    "Ps": "quotes must be straight: \" or '",
    "Cc": "remove it",
    "Cf": "remove it",
}
"""By Unicode category. Ps has the low quotation mark; none of its other characters looks like one of TOML's."""

_ALPHABETS = ("CYRILLIC", "GREEK", "FULLWIDTH", "MATHEMATICAL")
"""Alphabets with letters that look like Latin ones."""


def is_ordinary(character: str) -> bool:
    """Whether people see which character it is: printable ASCII, a tab or a line end."""
    return character in "\t\n" or (character.isascii() and character.isprintable())


def is_look_alike(character: str) -> bool:
    """Whether people mistake it for a space, for nothing, or for an ASCII letter."""
    if character.isascii():
        return False
    return unicodedata.category(character)[0] in "ZC" or unicodedata.name(character, "").startswith(_ALPHABETS)


def describe_character(character: str) -> str:
    """The code point with its name and the remedy."""
    name = unicodedata.name(character, _CONTROLS.get(character, "a control character"))
    if character == "\r":
        remedy = "end each line with a line feed (dos2unix -c mac converts the file)"
    else:
        remedy = _REMEDIES.get(unicodedata.category(character), "write an ASCII character")
    return f"U+{ord(character):04X} {name}; {remedy}"

"""Prints lines, tables and JSON. Unprintable characters are escaped.

A terminal and a pipe get the same text. On a terminal, signs are coloured unless NO_COLOR (https://no-color.org) is set
or TERM is dumb.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence

from tabulate import tabulate

from capacityd.model.text import printable

_COLOURS = {"+": 32, "~": 33, "-": 31, "!": 31, "<": 31}
"""Sign -> the code of its colour in ECMA-48 (SGR): 32 is green, 33 is yellow, 31 is red."""


def print_line(text: str = "", sign: str = "", indent: int = 0) -> None:
    """Prints a line. sign: a character to print before the text, or "". indent: number of spaces before the line."""
    prefix = f"{_coloured(sign)} " if sign else ""
    print(" " * indent + prefix + printable(text))


def print_message(message: str) -> None:
    """Prints a message for the user on standard error. Only results go to standard output."""
    print("capacityd:", printable(message), file=sys.stderr)


def print_table(
    rows: Iterable[Sequence[str]], header: Sequence[str] = (), indent: int = 0, *, signs: bool = False
) -> None:
    """Prints rows of equal length as aligned columns, with "-" for an empty cell. Prints nothing if there are no rows.

    signs: whether the first column contains signs.
    """
    table = [[printable(cell).strip() or "-" for cell in row] for row in rows]
    if not table:
        return
    if header:
        table.insert(0, list(header))  # as a row: with headers=, tabulate makes columns wider
    if signs:
        table = [[_coloured(sign), *others] for sign, *others in table]
    for line in tabulate(table, tablefmt="plain", disable_numparse=True).split("\n"):
        print(" " * indent + line)


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and the number of further names: "a, b and 7 more". most: the number of names to list."""
    text = ", ".join(names[:most])
    others = len(names) - most
    return f"{text} and {others} more" if others > 0 else text


def print_json(value: object) -> None:
    """Prints indented JSON. Only unprintable characters are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    print("".join(map(_json_character, text)))


def _json_character(char: str) -> str:
    """The character, or its escape sequence in JSON (such as \\u200b) if it is unprintable."""
    if char.isprintable() or char == "\n":
        return char
    return json.dumps(char).strip('"')


def _coloured(sign: str) -> str:
    if sign not in _COLOURS or not _shows_colours():
        return sign
    return f"\x1b[{_COLOURS[sign]}m{sign}\x1b[0m"


def _shows_colours() -> bool:
    """Whether standard output is a terminal that supports colours, and the user has not disabled them."""
    if os.environ.get("NO_COLOR"):
        return False
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"

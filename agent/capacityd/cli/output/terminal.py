"""Prints lines, tables and JSON. Unprintable characters are escaped.

A terminal and a pipe get the same text, with two exceptions on a terminal: sentences and the last column of a table are
wrapped to the terminal's width, and signs are coloured unless NO_COLOR (https://no-color.org) is set or TERM is dumb.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from tabulate import tabulate

from capacityd.model.text import printable

_MIN_WRAPPED = 20
"""Minimum width of a wrapped cell, in columns of the terminal."""
_GAP = 2
"""Spaces that tabulate puts between two columns of a table."""
_INDENT_BELOW = 4
"""Spaces before the text of a last column that is printed below its row."""
_COLOURS = {"+": 32, "~": 33, "-": 31, "!": 31, "<": 31}
"""Sign -> its colour: green, yellow or red of the terminal's theme, as in ECMA-48, SGR."""


def print_line(text: str = "", sign: str = "", indent: int = 0) -> None:
    """Prints a line. sign: one character to print before the text; "" for none. indent: spaces before both."""
    prefix = f"{_coloured(sign)} " if sign else ""
    print(" " * indent + prefix + printable(text))


def print_message(message: str) -> None:
    """Prints a message for the user on standard error; the result goes to standard output."""
    print("capacityd:", printable(message), file=sys.stderr)


def print_text(text: str, initial_indent: str = "", subsequent_indent: str = "  ") -> None:
    """Prints a sentence, on a terminal wrapped to its width.

    initial_indent, subsequent_indent: the text before the first line, and before each other line.
    """
    text = printable(text)
    unlimited = len(initial_indent + text)
    wrapper = textwrap.TextWrapper(
        width=terminal_width() or unlimited,
        initial_indent=initial_indent,
        subsequent_indent=subsequent_indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    print(wrapper.fill(text))


def terminal_width() -> int:
    """Returns the width of the terminal in columns; 0 if standard output is no terminal, or the width is unknown."""
    return shutil.get_terminal_size(fallback=(0, 0)).columns if _is_terminal() else 0


def print_table(
    rows: Iterable[Sequence[str]], header: Sequence[str] = (), indent: int = 0, *, signs: bool = False
) -> None:
    """Prints rows of equal length as aligned columns, with "-" for an empty cell. Prints nothing if there are no rows.

    signs: whether the first column contains signs. On a terminal, the last column is wrapped to the terminal's width.
    If the other columns leave less than _MIN_WRAPPED for the last one, its text is printed below its row.
    """
    table = [[printable(cell).strip() or "-" for cell in row] for row in rows]
    if not table:
        return
    if header:
        table.insert(0, list(header))  # as a row: with headers=, tabulate makes columns wider
    below: list[str] = []  # one text for each row, to print below it; empty: the last column is in the rows
    if width := terminal_width():
        room_for_last = width - indent - _width_of_others(table)
        is_only_column = len(table[0]) == 1
        if is_only_column or room_for_last >= _MIN_WRAPPED:
            table = [[*others, _filled(last, max(_MIN_WRAPPED, room_for_last))] for *others, last in table]
        else:
            below = [last for *_, last in table]
            table = [others for *others, _ in table]
    if signs:
        table = [[_coloured(sign), *others] for sign, *others in table]
    lines = tabulate(table, tablefmt="plain", disable_numparse=True).split("\n")
    indent_below = " " * (indent + _INDENT_BELOW)
    for number, line in enumerate(lines):
        print(" " * indent + line)
        if below and below[number] != "-":
            print_text(below[number], initial_indent=indent_below, subsequent_indent=indent_below)


def without_column(rows: Iterable[Sequence[str]], column: int) -> list[Sequence[str]]:
    """The rows without the cells of this column. column: its number, from 0."""
    return [(*row[:column], *row[column + 1 :]) for row in rows]


def _width_of_others(rows: Sequence[Sequence[str]]) -> int:
    """The width of all columns except the last one, with the gap after each."""
    *others, _last = zip(*rows, strict=True)
    return sum(max(map(len, column)) + _GAP for column in others)


def _filled(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_long_words=False)


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and the number of the others: "a, b and 7 more". most: the number of names to list."""
    text = ", ".join(names[:most])
    others = len(names) - most
    return f"{text} and {others} more" if others > 0 else text


def print_json(value: object) -> None:
    """Prints indented JSON. Only unprintable characters are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    print("".join(char if char.isprintable() or char == "\n" else _json_escape(char) for char in text))


def _json_escape(char: str) -> str:
    """The escape sequence for the character in a JSON string, such as \\u200b."""
    return json.dumps(char).strip('"')


def _coloured(sign: str) -> str:
    if sign not in _COLOURS or os.environ.get("NO_COLOR") or not _is_terminal():
        return sign
    return f"\x1b[{_COLOURS[sign]}m{sign}\x1b[0m"


def _is_terminal() -> bool:
    """Whether standard output is a terminal that supports escape sequences."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"

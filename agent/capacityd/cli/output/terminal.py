"""Prints lines, tables and JSON. Unprintable characters are escaped.

A terminal and a pipe get the same text, with two exceptions on a terminal: the last column of a table is wrapped to the
terminal's width, and signs are coloured unless NO_COLOR (https://no-color.org) is set or TERM is dumb.
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
"""Spaces between two columns of a table."""
_COLOURS = {"+": 32, "~": 33, "-": 31, "!": 31, "<": 31}  # from the 16 colours of a terminal's theme


def print_line(text: str = "", sign: str = "", indent: int = 0) -> None:
    """Prints a line. sign: one character to print before it."""
    print(" " * indent + (f"{_coloured(sign)} " if sign else "") + printable(text))


def print_table(
    rows: Iterable[Sequence[str]], header: Sequence[str] = (), indent: int = 0, *, signs: bool = False
) -> None:
    """Prints rows of equal length as aligned columns, with "-" for an empty cell. Prints nothing if there are no rows.

    signs: whether the first column contains signs. On a terminal, the last column is wrapped to the terminal's width.
    """
    cells = [[printable(cell).strip() or "-" for cell in row] for row in rows]
    if not cells:
        return
    if _is_terminal() and (width := shutil.get_terminal_size((0, 0)).columns):
        cells = _wrapped(cells, header, width - indent)
    if signs:
        cells = [[_coloured(sign), *others] for sign, *others in cells]
    if header:
        cells.insert(0, list(header))  # as a row: with headers=, tabulate makes columns wider
    for row in tabulate(cells, tablefmt="plain", disable_numparse=True).split("\n"):
        print(" " * indent + row)


def _wrapped(cells: Sequence[list[str]], header: Sequence[str], width: int) -> list[list[str]]:
    """Breaks lines in the last column, so that the table fits this width if possible."""
    lines = [*cells, header] if header else cells
    used = sum(max(len(line[column]) for line in lines) + _GAP for column in range(len(cells[0]) - 1))
    room = max(_MIN_WRAPPED, width - used)
    return [[*others, textwrap.fill(last, room, break_long_words=False)] for *others, last in cells]


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and the number of the others. most: names to list."""
    others = len(names) - most
    return ", ".join(names[:most]) + (f" and {others} more" if others > 0 else "")


def print_json(value: object) -> None:
    """Prints indented JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    print("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def _coloured(sign: str) -> str:
    if sign not in _COLOURS or os.environ.get("NO_COLOR") or not _is_terminal():
        return sign
    return f"\x1b[{_COLOURS[sign]}m{sign}\x1b[0m"


def _is_terminal() -> bool:
    """Whether standard output is a terminal that supports escape sequences."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"

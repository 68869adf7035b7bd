"""The terminal: tables and lines, coloured and wrapped where a person reads, plain and stable where a program does.

In a pipe nothing is coloured, wrapped or cut. On a terminal rich does both; it is imported only then, because that
takes as long as the rest of a command's start. Where it is not installed a terminal is shown what a pipe is. What a
text says is never interpreted: no markup, no emoji, and whatever isn't printable comes out as an escape. NO_COLOR
(https://no-color.org) and TERM=dumb mean no colour; FORCE_COLOR (https://force-color.org) makes a pipe a terminal.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from capacityd.cli.text import clean, columns

TYPE_CHECKING = False  # typing costs start-up time
if TYPE_CHECKING:
    from typing import TextIO, TypeAlias

    from rich.console import Console
    from rich.text import Text

    Cell: TypeAlias = str | tuple[str, str]
    """A text, or a text and its role."""

ROLES = {
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "new": "green",
    "gone": "red",
    "changed": "yellow",
    "dim": "dim",
    "strong": "bold",
    "name": "bold",
    "code": "cyan",
}
"""What a text may be, and how that looks. In sixteen colours, so that they are those of the reader's own theme."""

_GAP = 2
_END = re.compile(r"(?: |\x1b\[[0-9;]*m)+$")
_LEAST = 24  # columns that the last cell of a row needs to be read; with less, the row becomes a paragraph


class Screen:
    """Where a command prints its result: standard output as it is now.

    A cell is a text, or a pair of a text and its role (see ROLES).
    """

    def __init__(self) -> None:
        self._console = _console(sys.stdout) if is_terminal(sys.stdout) else None

    def line(self, *cells: Cell, indent: int = 0) -> None:
        """Prints the cells one after the other, without anything between them; wrapped with a hanging indent."""
        if self._console is None:
            _print([(" " * indent + "".join(_text(cell) for cell in cells)).rstrip()])
        else:
            _print(_wrapped(self._console, cells, indent, indent + _GAP))

    def copyable(self, *cells: Cell, indent: int = 0) -> None:
        """Prints the cells as line does, but on one line, which only the terminal itself may break: it stays whole
        when it is copied."""
        if self._console is None:
            self.line(*cells, indent=indent)
        else:
            from rich.text import Text

            with self._console.capture() as captured:
                self._console.print(Text(" " * indent) + Text().join(map(_rich, cells)), soft_wrap=True)
            _print(_lines(captured.get()))

    def table(
        self, rows: Iterable[Sequence[Cell]], header: Sequence[str] = (), indent: int = 0, right: Collection[int] = ()
    ) -> None:
        """Prints rows of aligned columns; right: the numbers of those that are aligned to the right.

        Where the terminal is too narrow the last column is wrapped, and where that is not enough each row becomes a
        paragraph, its cells after the first with the header's word before them.
        """
        cells = [list(row) for row in rows]
        if not cells:
            return
        plain = [[_text(cell) for cell in row] for row in ([list(header)] if header else []) + cells]
        if self._console is None:
            _print(" " * indent + line for line in columns(plain, right))
        elif _fits(plain, self._console.width - indent):
            _print(_aligned(self._console, cells, header, indent, right))
        else:
            for row in cells:
                _print(_paragraph(self._console, row, header, indent))


@contextmanager
def progress(message: str) -> Iterator[Callable[[str], None]]:
    """Shows on standard error, if that is a terminal, that something takes long; yields what changes the message."""
    seen = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    console = _console(sys.stderr) if seen else None
    if console is None:
        yield lambda text: None
        return
    with console.status(_rich(message), spinner="line") as shown:
        yield lambda text: shown.update(_rich(text))


def is_terminal(stream: TextIO) -> bool:
    """Whether a person reads it."""
    return stream.isatty() or bool(os.environ.get("FORCE_COLOR"))


def _console(stream: TextIO) -> Console | None:
    """None without rich, which only people's machines need have."""
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        return None
    colourless = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")
    return Console(
        file=stream,
        force_terminal=True,
        force_jupyter=False,
        color_system=None if colourless else "standard",
        no_color=False,
        markup=False,
        emoji=False,
        highlight=False,
    )


def _print(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _fits(rows: Sequence[Sequence[str]], width: int) -> bool:
    from rich.cells import cell_len

    widths = [0] * max(len(row) for row in rows)
    for row in rows:
        for n, text in enumerate(row):
            widths[n] = max(widths[n], cell_len(text))
    *first, last = widths
    return sum(first) + _GAP * len(first) + min(last, _LEAST) <= width


def _aligned(
    console: Console, rows: Sequence[Sequence[Cell]], header: Sequence[str], indent: int, right: Collection[int]
) -> list[str]:
    from rich.padding import Padding
    from rich.table import Table

    # Without lines around it, so that what is copied from it is what it says.
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=bool(header), header_style="bold")
    last = max(len(row) for row in rows) - 1
    for n in range(last + 1):
        table.add_column(
            _rich(header[n]) if n < len(header) else "",
            justify="right" if n in right else "left",
            no_wrap=n != last,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*[_rich(cell) for cell in row])
    with console.capture() as captured:
        console.print(Padding(table, (0, 0, 0, indent)))
    return _lines(captured.get())


def _paragraph(console: Console, row: Sequence[Cell], header: Sequence[str], indent: int) -> list[str]:
    """A row of a table that is too wide: as many cells to a line as fit."""
    lines: list[list[Cell]] = [[]]
    room = console.width - indent
    for n, cell in enumerate(row):
        if not (text := _text(cell)):
            continue
        label = f"{header[n].lower()} " if n and n < len(header) and header[n] else ""
        gap = " " * _GAP if lines[-1] else ""
        room -= len(gap + label + text)
        if gap and room < 0:
            lines.append([])
            gap, room = "", console.width - indent - 2 * _GAP - len(label + text)
        lines[-1] += [gap, (label, "dim"), cell]
    wide, hanging = indent + 2 * _GAP, indent + 3 * _GAP
    return [part for n, line in enumerate(lines) for part in _wrapped(console, line, wide if n else indent, hanging)]


def _wrapped(console: Console, cells: Iterable[Cell], indent: int, hanging: int) -> list[str]:
    from rich.text import Text

    text = Text().join(_rich(cell) for cell in cells)
    fits = text.cell_len <= console.width - indent
    lines = [text] if fits else text.wrap(console, max(10, console.width - hanging), overflow="fold")
    with console.capture() as captured:
        for n, line in enumerate(lines):
            console.print(Text(" " * (hanging if n else indent)) + line, soft_wrap=True)
    return _lines(captured.get())


def _lines(printed: str) -> list[str]:
    """Without the spaces at the ends, coloured or not."""
    return [_END.sub(lambda end: "\x1b[0m" if "\x1b" in end[0] else "", line) for line in printed.splitlines()]


def _text(cell: Cell) -> str:
    return clean(cell if isinstance(cell, str) else cell[0])


def _rich(cell: Cell) -> Text:
    from rich.text import Text

    return Text(_text(cell), style="" if isinstance(cell, str) else ROLES[cell[1]], overflow="fold")

"""Shows on a terminal how much has been read so far."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ERASE_LINE = "\r\x1b[K"  # ECMA-48: to the start of the line, then erase the line


@contextmanager
def count_progress() -> Iterator[Callable[[str, int], None]]:
    """Provides a function that shows on a terminal (standard error) how much has been read.

    The function takes the kind of the objects, such as "Nodes", and their number. The line is erased at the end.
    """
    is_terminal = sys.stderr.isatty()

    def show(kind: str, count: int) -> None:
        if is_terminal:
            print(f"{_ERASE_LINE}reading {kind}: {count}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if is_terminal:
            print(_ERASE_LINE, end="", file=sys.stderr, flush=True)

"""The limits and the form of the text in files of a machine, live or recorded.

Files are decoded with surrogateescape: a byte that is not UTF-8 is a surrogate. The functions return printable text.
"""

from __future__ import annotations

from capacityd.model.text import printable

MAX_ATTRIBUTE_BYTES = 65536
"""The limit of a small file, such as an attribute in /sys, of which the kernel writes at most a page: 4 to 64 KiB."""
MAX_TABLE_BYTES = 16 * 1024 * 1024
"""The limit of a table of the kernel: the mount table of a node with many pods."""


def text_of(content: str) -> str:
    """The text of a small file, without surrounding white space and NULs."""
    return printable(content.strip(" \t\n\0"))


def stripped_lines(content: str) -> tuple[str, ...]:
    """The lines of a file without white space around the content and at the ends of lines. Tabs become spaces.

    Programs of Windows write a byte order mark before the text.
    """
    lines = content.removeprefix("\ufeff").replace("\t", " ").strip(" \r\n").split("\n")
    return tuple(printable(line.rstrip(" \r")) for line in lines)


def lines_of(content: str) -> list[str]:
    """The lines of a file that are not empty. Tabs become spaces.

    A NUL also ends a line: it ends each string of a list in /proc/device-tree.
    """
    lines = content.replace("\0", "\n").replace("\t", " ").split("\n")
    return [printable(line) for line in lines if line]

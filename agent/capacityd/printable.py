"""What others say (a device, a file, a server) as it may stand anywhere: on a terminal, in a log, in JSON.

A byte or character that could do harm there comes out as an escape such as \\x1b. So what a user sees printed is also
what a configuration matches.
"""

from __future__ import annotations


def printable(raw: bytes | str) -> str:
    """Text, of UTF-8 if it is bytes, whose every unprintable character is an escape."""
    text = raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    if "\udc80" <= char <= "\udcff":  # a byte that was no UTF-8; names of files come with such, too
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")

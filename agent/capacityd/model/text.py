"""Makes text from devices, files and servers safe for terminals, logs and JSON. Also formats durations for people.

Unprintable bytes and characters become escapes such as \\x1b. Tests in a configuration compare the escaped text.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:[tnr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
_CONTROL = r"(?:\\(?:[tnr]|x[0189][0-9a-f]|x7f)|\s)+"  # escapes of the control characters 00-1f, 7f and 80-9f
_CONTROL_AT_ENDS = re.compile(f"^{_CONTROL}|{_CONTROL}$")


def printable(raw: bytes | str) -> str:
    """The text with an escape for every unprintable character. Bytes are decoded as UTF-8."""
    text = raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    if "\udc80" <= char <= "\udcff":  # surrogateescape has decoded a byte that is not UTF-8
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def strip_control(text: str) -> str:
    """Removes white space and escaped control characters at both ends of a printable text."""
    return _CONTROL_AT_ENDS.sub("", text)


def has_escapes(text: str) -> bool:
    """Whether the text contains an escape of printable(), or the same characters from the original text."""
    return _ESCAPE.search(text) is not None


def plural(count: int, noun: str) -> str:
    """A number with its noun, e.g. "1 file", "2 files"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def duration_text(seconds: float) -> str:
    """A duration in a suitable unit, e.g. "45 s", "3 h"; "0 s" if it is negative."""
    seconds = max(0.0, seconds)
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} d"

"""The one door to the machine. What comes through it is plain text and numbers, safe to print; errors are HostError.

Text is decoded as UTF-8; a byte or character that could do harm on a terminal or in a log comes out as an escape
such as \\x1b. So what a user sees printed is also what a configuration matches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Content:
    """A file's content and its age in seconds."""

    text: str
    age: float


@dataclass(frozen=True, slots=True)
class Output:
    """What a program said before it ended with this exit status (negative: killed by that signal)."""

    status: int
    out: str
    err: str


class Host(Protocol):
    """A machine, live or recorded. Every method may raise HostError: then what it would have said is unknown."""

    def names(self, folder: str) -> Sequence[str]:
        """What a folder holds, sorted; nothing if there is no such folder."""

    def text(self, path: str) -> str | None:
        """A small file's text without white space around it; None if there is no such file."""

    def resolve(self, path: str) -> str | None:
        """The path with all links followed; None if it leads nowhere."""

    def properties(self, device: str) -> Mapping[str, str]:
        """What udev's database says of the device at this path in /sys."""

    def link_speeds(self, interface: str) -> Sequence[int]:
        """The speeds in bit/s of the link modes that an interface supports; empty if its driver names none."""

    def lines(self, path: str) -> Sequence[str]:
        """A text file's lines, or what stands between its NUL bytes; nothing if there is no such file."""

    def content(self, path: str, most: int) -> Content:
        """A file of at most this many bytes; HostError also if it is missing."""

    def run(self, command: Sequence[str], timeout: float) -> Output:
        """Runs a program to its end, at most timeout seconds; nothing that it started is left afterwards."""

    def arch(self) -> str:
        """The machine's architecture as uname -m says it."""

    def hostname(self) -> str:
        """The machine's host name."""


def machine_id(host: Host) -> str:
    """The machine's id (machine-id(5)), "" if it has none."""
    return host.text("/etc/machine-id") or ""


def printable(raw: bytes | str) -> str:
    """Text as it may stand anywhere: what isn't printable becomes an escape."""
    text = raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)

"""The kernel's table of mounts, see proc_pid_mountinfo(5): its lines, and how it writes paths."""

from __future__ import annotations

import re
from dataclasses import dataclass

TABLE = "/proc/self/mountinfo"

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of it. number: major:minor of the file system. root: which folder of it is mounted; point: where."""

    id: str
    number: str
    root: str
    point: str
    type: str
    source: str
    read_only: bool  # the file system, whatever the mount is


def mount_of(line: str) -> Mount | None:
    """A line as a mount, None if it is none. The optional fields in its middle end with a lone hyphen."""
    before, _, after = line.partition(" - ")
    fields, rest = before.split(" "), after.split(" ")
    if len(fields) < 6 or len(rest) < 2:
        return None
    options = rest[2].split(",") if len(rest) > 2 else []
    root, point, source = (unescaped(text) for text in (fields[3], fields[4], rest[1]))
    return Mount(fields[0], fields[2], root, point, rest[0], source, "ro" in options)


def unescaped(text: str) -> str:
    """A path of mountinfo or swaps as it is: there, spaces and the like are octal escapes."""
    return _OCTAL.sub(lambda m: chr(int(m[1], 8)), text)

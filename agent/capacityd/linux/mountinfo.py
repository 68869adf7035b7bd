"""The kernel's mount table, proc_pid_mountinfo(5): its lines and its escaping of paths."""

from __future__ import annotations

import re
from dataclasses import dataclass

MOUNT_TABLE = "/proc/self/mountinfo"

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of the mount table."""

    id: str
    number: str  # major:minor of the file system
    root: str  # the folder of the file system that is mounted
    point: str  # where it is mounted
    type: str
    source: str
    options: str  # the file system's (super options), not the mount's

    @property
    def read_only(self) -> bool:
        """Whether the file system is read-only through all its mounts."""
        return "ro" in self.options.split(",")


def mount_of(line: str) -> Mount | None:
    """The mount in a line; None if the line is malformed. A single hyphen ends the optional fields in the middle."""
    mount, _, filesystem = line.partition(" - ")
    mount_fields, fields = mount.split(" "), filesystem.split(" ")
    if len(mount_fields) < 6 or len(fields) < 2:
        return None
    root, point, source = (unescaped(text) for text in (mount_fields[3], mount_fields[4], fields[1]))
    options = fields[2] if len(fields) > 2 else ""
    return Mount(mount_fields[0], mount_fields[2], root, point, fields[0], source, options)


def unescaped(text: str) -> str:
    """A path from mountinfo or swaps, with octal escapes (for spaces and similar characters) decoded."""
    return _OCTAL.sub(lambda m: chr(int(m[1], 8)), text) if "\\" in text else text

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
    options: str  # of the file system (super options), not of the mount

    @property
    def read_only(self) -> bool:
        """Whether the file system is read-only through all of its mounts."""
        return "ro" in self.options.split(",")


def mount_of(line: str) -> Mount | None:
    """The mount of a line; None if it is malformed. The optional fields in its middle end with a single hyphen."""
    mount, _, filesystem = line.partition(" - ")
    mount_fields, fields = mount.split(" "), filesystem.split(" ")
    if len(mount_fields) < 6 or len(fields) < 2:
        return None
    root, point, source = (unescaped(text) for text in (mount_fields[3], mount_fields[4], fields[1]))
    options = fields[2] if len(fields) > 2 else ""
    return Mount(mount_fields[0], mount_fields[2], root, point, fields[0], source, options)


def unescaped(text: str) -> str:
    """A path of mountinfo or swaps, with octal escapes (of spaces and the like) decoded."""
    return _OCTAL.sub(lambda m: chr(int(m[1], 8)), text) if "\\" in text else text

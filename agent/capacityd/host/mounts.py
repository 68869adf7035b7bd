"""The machine's mounts and swap areas. Their paths may contain bytes that are not printable."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from capacityd.host.regular_file import MAX_TABLE_BYTES
from capacityd.linux.mountinfo import MOUNT_TABLE, Mount, mount_of, unescaped
from capacityd.model.errors import HostError
from capacityd.model.host import Host
from capacityd.model.quoting import length_text, quoted
from capacityd.model.text import printable

SWAPS = "/proc/swaps"


def mounts(host: Host) -> list[Mount]:
    """All mounts, in the order of the table. Raises HostError, also if the table is empty or a line is malformed."""
    found = []
    for line in host.raw(MOUNT_TABLE, MAX_TABLE_BYTES).split("\n"):
        mount = mount_of(line)
        if mount is not None:
            found.append(mount)
        elif line:
            # Only the detail quotes the line, because no log contains a detail.
            raise HostError(
                f"{MOUNT_TABLE} contains a malformed line ({length_text(line)})", detail=quoted(printable(line))
            )
    if not found:
        raise HostError(f"{MOUNT_TABLE} is empty")
    return found


def swaps(host: Host) -> Iterator[tuple[str, str]]:
    """Yields the path and the type of each swap area, as swap_areas() does. Raises HostError."""
    try:
        yield from swap_areas(host.raw(SWAPS, MAX_TABLE_BYTES))
    except HostError as e:
        if e.errno != errno.ENOENT:  # a kernel without swap has no such file
            raise


def swap_areas(table: str) -> Iterator[tuple[str, str]]:
    """Yields the path and the type ("file" or "partition") of each swap area. table: the content of /proc/swaps."""
    _column_names, *lines = table.split("\n")
    for line in lines:
        fields = line.split()
        if len(fields) >= 2:
            path, type_ = fields[:2]
            yield unescaped(path), type_

"""Which paths to watch for a file: each link on the way to the file, and the target.

A link is followed only if it belongs to root, to the user of this process, or to the owner of the target. Otherwise,
the link's owner could learn when a file changes that only root can see. linux/opening.py reads files by the same rule.
This module opens no file, because the service must not wait for a server.
"""

from __future__ import annotations

import os
from collections.abc import Collection

_MAXSYMLINKS = 40  # the kernel's limit for links in one path


def watch_points(path: str, remote: Collection[str]) -> list[str]:
    """Returns the paths to watch for this path: each link on the way and, at the end, the target.

    If a link is not followed, the list ends with this link. remote: mount points of network and FUSE file systems. If
    the path enters one of these mount points, the list ends with the mount point.
    """
    links: dict[str, int] = {}  # link -> its owner
    followed = 0
    current = ""
    parts = path.split("/")
    while parts and followed <= _MAXSYMLINKS:
        part = parts.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            current = os.path.dirname(current)
            continue
        current = f"{current}/{part}"
        if current in remote:
            break
        try:
            target = os.readlink(current)
            links[current] = os.lstat(current).st_uid
        except OSError:
            continue
        followed += 1
        parts = target.split("/") + parts
        current = "" if target.startswith("/") else os.path.dirname(current)
    reached = [] if followed > _MAXSYMLINKS else [current or "/"]  # after too many links, open() fails with ELOOP
    trusted_owners = {0, os.geteuid(), *(_owner(end, remote) for end in reached)}
    watched = list(links)
    for count, owner in enumerate(links.values(), 1):
        if owner not in trusted_owners:
            return watched[:count]  # the last of these links is not followed
    return watched + reached


def _owner(path: str, remote: Collection[str]) -> int | None:
    """The owner of the file or folder at a path; None if it is missing, or must not be accessed."""
    if path in remote:
        return None
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None

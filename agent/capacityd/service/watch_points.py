"""Which paths to watch for a file: each link on its way, and its target. Links are followed as the read does.

A link that belongs neither to root, nor to the user of this process, nor to the owner of the target is not followed:
with it, another user would learn when a file changes that only root can see. Source of the rule: linux/opening.py,
which opens the folders on the way. This module opens nothing, because the service must not wait for a server.
"""

from __future__ import annotations

import os
from collections.abc import Collection

_MAXSYMLINKS = 40  # the kernel's limit for links in one path


def watch_points(path: str, remote: Collection[str]) -> list[str]:
    """The paths whose change may change the target of this path: each link on the way and, as the last one, the target.

    If a link is not followed, it is the last one. remote: mount points of network and FUSE file systems. Nothing below
    them is accessed: such a mount point is then the target.
    """
    links: dict[str, int] = {}  # link -> its owner; a loop of links leads to the same link again
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
    reached = [] if followed > _MAXSYMLINKS else [current or "/"]  # no target: open() fails with ELOOP
    trusted = {0, os.geteuid(), *(_owner(target, remote) for target in reached)}
    points = []
    for link, owner in links.items():
        points.append(link)
        if owner not in trusted:
            return points
    return points + reached


def _owner(path: str, remote: Collection[str]) -> int | None:
    """The owner of what a path leads to; None if nothing is there, or if it must not be accessed."""
    if path in remote:
        return None
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None

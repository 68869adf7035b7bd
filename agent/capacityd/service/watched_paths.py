"""Which paths to watch for a file: each link on the way to the file, and the target.

A link is followed only if it belongs to root, to the user of this process, or to the owner of the target. Otherwise,
the link's owner could learn when a file changes that only root can see. linux/opening.py reads files by the same rule.
This module opens no file, because the service must not wait for a server.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from capacityd.linux.path_walk import MAX_LINKS
from capacityd.linux.paths import reversed_names

_ROOT = 0  # the uid


def watched_paths(path: str, remote: Collection[str]) -> list[str]:
    """Returns the paths to watch for a file: each link on the way to the file and, at the end, the target.

    The list ends with the first link that is not trusted. remote: mount points of network and FUSE file systems. If
    the path enters one of these mount points, the list ends with the mount point.
    """
    owner_by_link, target = _follow(path, remote)
    trusted_owners = {_ROOT, os.geteuid(), *_owners(target, remote)}
    watched: list[str] = []
    for link, owner in owner_by_link.items():
        watched.append(link)
        if owner not in trusted_owners:
            return watched
    if target is not None:
        watched.append(target)
    return watched


def _follow(path: str, remote: Collection[str]) -> tuple[dict[str, int], str | None]:
    """Follows a path up to its target, or up to a remote mount point. Returns link -> owner, and where the path ends.

    The end is None if the path has too many links. open() would then fail with ELOOP.
    """
    owner_by_link: dict[str, int] = {}
    link_count = 0
    current = "/"
    names = reversed_names(path)  # the names that are still to follow; the next name is the last in the list
    while names:
        name = names.pop()
        folder = current
        current = os.path.dirname(folder) if name == ".." else os.path.join(folder, name)
        if current in remote:
            break
        try:
            link_target = os.readlink(current)
            owner_by_link[current] = os.lstat(current).st_uid
        except OSError:  # this is no link
            continue
        link_count += 1
        if link_count > MAX_LINKS:
            return owner_by_link, None
        names += reversed_names(link_target)
        current = "/" if link_target.startswith("/") else folder
    return owner_by_link, current


def _owners(path: str | None, remote: Collection[str]) -> set[int]:
    """A set with the owner of the file or folder at a path; empty if it is missing, or must not be accessed."""
    if path is None or path in remote:
        return set()
    try:
        return {os.lstat(path).st_uid}
    except OSError:
        return set()

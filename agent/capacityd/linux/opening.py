"""Opens data that may belong to any user: a file that contains a number, the folder for the metrics, or a path that is
only tested for existence.

A symbolic link is followed if it belongs to root, to the user of this process, or to the owner of the link's target.
By any other symbolic link, or by a hard link, another user could make this process use one of root's files. The
kernel's own checks (protected_symlinks and protected_hardlinks, proc_sys_fs(5)) cover only some folders, and may be
switched off.
"""

from __future__ import annotations

import os
import stat

from capacityd.linux.path_walk import LEADS_NOWHERE, PathPart, open_folder, open_regular, walk
from capacityd.model.text import printable


class UntrustedLink(Exception):
    """Another user may have chosen what a path leads to. The message names the link."""

    def __init__(self, link: str) -> None:
        # The message does not depend on the link's target, because the other user must not learn which files exist.
        super().__init__(
            f"{printable(link)} may be another user's link to a file of root, so it is not followed; "
            "configure the path that it leads to"
        )


def open_data_file(path: str) -> int:
    """Opens the regular file at this path for reading, and returns its descriptor. Raises UntrustedLink and OSError."""
    return open_regular(_resolve_trusted(path))


def open_data_folder(path: str) -> int:
    """Opens the folder at this path, and returns its descriptor. Raises UntrustedLink and OSError."""
    return open_folder(_resolve_trusted(path))


def data_exists(path: str) -> bool:
    """Whether the target of this path exists. Does not open the target. Raises UntrustedLink and OSError."""
    try:
        _resolve_trusted(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _resolve_trusted(path: str) -> PathPart:
    """The target of a path. Raises UntrustedLink if another user may have chosen the target, and OSError."""
    untrusted_symlinks: list[PathPart] = []
    untrusted_hard_link: PathPart | None = None
    try:
        for part, folder in walk(path):
            if part.is_link and not _has_trusted_owner(part.status):
                untrusted_symlinks.append(part)
            if untrusted_hard_link is None and _others_may_have_made_hard_link(part, folder):
                untrusted_hard_link = part
    except OSError as e:
        if untrusted_symlinks and e.errno in LEADS_NOWHERE:
            # The OSError would show the link's owner whether a file exists that only root can see.
            raise UntrustedLink(untrusted_symlinks[0].path) from None
        raise
    # The owner of the target may link to it. Symbolic links are checked first: a message about a hard link behind a
    # symbolic link would contain the path that the symbolic link's owner has chosen.
    target = part  # the last part
    for link in untrusted_symlinks:
        if link.status.st_uid != target.status.st_uid:
            raise UntrustedLink(link.path)
    if untrusted_hard_link:
        raise UntrustedLink(untrusted_hard_link.path)
    return target


def _has_trusted_owner(status: os.stat_result) -> bool:
    """Whether the owner is root, or the user of this process."""
    return status.st_uid in (0, os.geteuid())


def _others_may_have_made_hard_link(part: PathPart, folder: PathPart) -> bool:
    """Whether another user may have made this hard link to a file that root or this process's user owns."""
    has_other_names = not part.is_folder and part.status.st_nlink >= 2
    others_may_write_folder = bool(folder.status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    others_may_add_name = others_may_write_folder or not _has_trusted_owner(folder.status)
    return has_other_names and _has_trusted_owner(part.status) and others_may_add_name

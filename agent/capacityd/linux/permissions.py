"""Whether the service, or every user, may read a file according to owners and modes.

The service is root without capabilities. This module also describes owners and modes for messages.
"""

from __future__ import annotations

import os
import shlex
import stat

from capacityd.linux.paths import is_inside, parents, steps_to

_ACL_ATTRIBUTE = "system.posix_acl_access"
_OVERFLOW_UID_FILE = "/proc/sys/kernel/overflowuid"
"""Contains the uid that stands for all users whom a user namespace does not map (user_namespaces(7)). PrivateUsers=
creates a user namespace, for example (systemd.exec(5))."""


def why_unreadable_to_root(path: str) -> str:
    """Returns the message that a file, or a folder above it, denies access to root without capabilities.

    The message contains a remedy. Returns "" if owners and modes allow the access, or if the file or a folder has an
    ACL, which may allow the access.
    """
    for part in steps_to(os.path.realpath(path)):
        try:
            status = os.stat(part)
            if _ACL_ATTRIBUTE in os.listxattr(part):
                return ""
        except OSError:  # the part does not exist, and the folders above it allow access
            return ""
        needed_permission = stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else stat.S_IROTH
        if not _mode_for_root(status) & needed_permission:
            return (
                f"{part} ({owner_and_mode(status)}) is not readable by the service, which is root without "
                f"capabilities: {shlex.join(_remedy(part, status))}"
            )
    return ""


def _remedy(path: str, status: os.stat_result) -> list[str]:
    """The command after which root without capabilities may read a file, or enter a folder."""
    is_folder = stat.S_ISDIR(status.st_mode)
    if status.st_uid == 0:
        return ["chmod", "u+x" if is_folder else "u+r", path]
    if is_folder:  # not chown: the folder may be the home of another user
        return ["chmod", "o+x", path]
    return ["chown", "root", path]


def others_may_read(path: str, root: str) -> bool:
    """Whether every user may read a file, according to the modes of the file and of the folders above it.

    root: the folder that stands for /. Of the folders above the file, only those inside root count. If the path
    is a link that leads out of root, all folders above the link's target count.
    """
    file = os.path.realpath(path)
    real_root = os.path.realpath(root)
    folders = set(parents(file)) - {"/"}  # every user may enter /
    if is_inside(file, real_root):
        folders -= {real_root, *parents(real_root)}
    try:
        may_enter = all(os.stat(folder).st_mode & stat.S_IXOTH for folder in folders)
        may_read = bool(os.stat(file).st_mode & stat.S_IROTH)
        return may_enter and may_read
    except OSError:
        return False


def _mode_for_root(status: os.stat_result) -> int:
    """The mode, shifted so that the permissions of user 0 and group 0 are in its lowest bits (S_IROTH, S_IXOTH)."""
    if status.st_uid == 0:
        return status.st_mode >> 6
    if status.st_gid == 0:
        return status.st_mode >> 3
    return status.st_mode


def owner_and_mode(status: os.stat_result) -> str:
    """The owner and the mode as text for a message, such as "owner root, mode 0644"."""
    with open(_OVERFLOW_UID_FILE, encoding="ascii") as f:
        overflow_uid = int(f.read())
    names = {overflow_uid: "another user", 0: "root"}
    owner = names.get(status.st_uid, f"uid {status.st_uid}")
    return f"owner {owner}, mode {stat.S_IMODE(status.st_mode):04o}"

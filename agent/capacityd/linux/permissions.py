"""Who may read a file, according to owners and modes: the service, which is root without capabilities, or every user.

Also the words for owners and modes in messages.
"""

from __future__ import annotations

import os
import shlex
import stat

_ACL = "system.posix_acl_access"
_OVERFLOW_UID = "/proc/sys/kernel/overflowuid"


def why_unreadable_to_root(path: str) -> str:
    """Returns which file, or folder above it, denies access to root without capabilities, and how to fix it.

    Returns "" if owners and modes deny nothing, or if one of these files has an ACL.
    """
    resolved = os.path.realpath(path)
    folders = [resolved[:end] for end, character in enumerate(resolved) if end and character == "/"]
    for part in (*folders, resolved):
        try:
            status = os.stat(part)
            if _ACL in os.listxattr(part):
                return ""
        except OSError:  # the path does not exist; a folder that denies access would have come first
            return ""
        folder = stat.S_ISDIR(status.st_mode)
        needed = stat.S_IXOTH if folder else stat.S_IROTH
        if not status.st_mode & needed << _shift(status):
            letter = "x" if folder else "r"
            command = ["chmod", f"u+{letter}", part] if status.st_uid == 0 else ["chown", "root", part]
            return (
                f"{part} ({owner_and_mode(status)}) is not readable by the service, which is root without "
                f"capabilities: {shlex.join(command)}"
            )
    return ""


def others_may_read(path: str, root: str) -> bool:
    """Whether every user may read a file, according to its mode and those of the folders above it.

    root: this folder and those above it do not count, unless the file is a link to another place.
    """
    resolved, start = os.path.realpath(path), os.path.realpath(root).rstrip("/")
    first = len(start) + 1 if resolved.startswith(f"{start}/") else 1
    folders = [resolved[:end] for end, character in enumerate(resolved) if end >= first and character == "/"]
    try:
        may_enter = all(os.stat(folder).st_mode & stat.S_IXOTH for folder in folders)
        return may_enter and bool(os.stat(resolved).st_mode & stat.S_IROTH)
    except OSError:
        return False


def _shift(status: os.stat_result) -> int:
    """The position of the mode's bits that apply to user 0 and group 0."""
    if status.st_uid == 0:
        return 6
    return 3 if status.st_gid == 0 else 0


def owner_and_mode(status: os.stat_result) -> str:
    """The owner and the mode, for a message."""
    return f"owner {owner_name(status.st_uid)}, mode {stat.S_IMODE(status.st_mode):04o}"


def owner_name(uid: int) -> str:
    """The user. In a user namespace, such as that of PrivateUsers= (systemd.exec(5)), other users may look alike."""
    if uid == 0:
        return "root"
    return "another user" if uid == overflow_uid() else f"uid {uid}"


def overflow_uid() -> int:
    """The uid that stands for every user that a user namespace does not map (user_namespaces(7))."""
    with open(_OVERFLOW_UID, encoding="ascii") as f:
        return int(f.read())

"""Why root without capabilities, as the service is, may not read a file, unlike root in a shell."""

from __future__ import annotations

import os
import stat

_ACL = "system.posix_acl_access"
_OVERFLOW_UID = "/proc/sys/kernel/overflowuid"


def why_unreadable_to_root(path: str) -> str:
    """Names the file, or a folder above it, that denies access to root without capabilities, and the remedy.

    Returns "" if owners and modes deny nothing, or if one of these files has an ACL.
    """
    resolved = os.path.realpath(path)
    folders = [resolved[:end] for end, character in enumerate(resolved) if end and character == "/"]
    for part in (*folders, resolved):
        try:
            status = os.stat(part)
            if _ACL in os.listxattr(part):
                return ""
        except OSError:  # it does not exist, and a folder that denies access would have come before
            return ""
        folder = stat.S_ISDIR(status.st_mode)
        needed = stat.S_IXOTH if folder else stat.S_IROTH
        if not status.st_mode & needed << _shift(status):
            letter = "x" if folder else "r"
            remedy = f"chmod u+{letter} {part}" if status.st_uid == 0 else f"chown root {part}"
            state = owner_and_mode(status)
            return f"{part} ({state}) is not readable by the service, which is root without capabilities: {remedy}"
    return ""


def _shift(status: os.stat_result) -> int:
    """Where the bits of the mode are that apply to user 0 of group 0."""
    if status.st_uid == 0:
        return 6
    return 3 if status.st_gid == 0 else 0


def owner_and_mode(status: os.stat_result) -> str:
    """The owner and the mode, for a message."""
    return f"owner {_owner(status.st_uid)}, mode {stat.S_IMODE(status.st_mode):04o}"


def _owner(uid: int) -> str:
    """The user. In the service's user namespace, all but root look alike (PrivateUsers=, systemd.exec(5))."""
    if uid == 0:
        return "root"
    with open(_OVERFLOW_UID, encoding="ascii") as f:
        return "another user" if uid == int(f.read()) else f"uid {uid}"

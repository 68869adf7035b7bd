"""Why root without capabilities, as the service is, may not read a file, unlike root in a shell."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

_ACL = "system.posix_acl_access"
_OVERFLOW_UID = "/proc/sys/kernel/overflowuid"


def why_unreadable_to_root(path: str) -> str:
    """Names the file, or a folder above it, that denies root without capabilities, and the command that mends it.

    Returns "" if none does by its owner and mode, or if one has an ACL.
    """
    part = "/"
    for part in _parts(os.path.realpath(path)):
        try:
            found = os.stat(part)
            if _ACL in os.listxattr(part):
                return ""
        except OSError:  # it does not exist; what denies access stands above it
            return ""
        folder = stat.S_ISDIR(found.st_mode)
        needed = stat.S_IXOTH if folder else stat.S_IROTH
        # The group of the mode that counts for user 0 and group 0.
        shift = 6 if found.st_uid == 0 else 3 if found.st_gid == 0 else 0
        if not found.st_mode & needed << shift:
            letter = "x" if folder else "r"
            mend = f"chmod u+{letter} {part}" if found.st_uid == 0 else f"chown root {part}"
            state = owner_and_mode(found)
            return f"{part} ({state}) is not readable by the service, which is root without capabilities: {mend}"
    return ""


def owner_and_mode(status: os.stat_result) -> str:
    """Names both, for a message."""
    return f"owner {_owner(status.st_uid)}, mode {stat.S_IMODE(status.st_mode):04o}"


def _parts(path: str) -> Iterator[str]:
    """Yields all folders above an absolute path, from / on, and the path."""
    end = 0
    while (end := path.find("/", end + 1)) != -1:
        yield path[:end]
    yield path


def _owner(uid: int) -> str:
    """The user. All but root look alike in the service's user namespace (PrivateUsers=, systemd.exec(5))."""
    if uid == 0:
        return "root"
    with open(_OVERFLOW_UID, encoding="ascii") as f:
        return "another user" if uid == int(f.read()) else f"uid {uid}"

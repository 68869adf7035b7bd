"""Whether a file or a folder is safe from other users: it can name programs, which the service runs as root.

The service is root without CAP_DAC_OVERRIDE, so it also needs permission to read, unlike root in a shell.
"""

from __future__ import annotations

import os
import stat

from capacityd.linux.permissions import owner_and_mode


def untrusted(path: str, status: os.stat_result, *, usual: bool) -> str:
    """Why a configuration file or its folder is not used, with the command that mends it; "" if it is safe.

    usual: whether it is in one of the usual places. Any other file was named by whoever started the command, so it does
    not matter who owns it, or whether its group can write it.
    """
    state = f"({owner_and_mode(status)})"
    folder = stat.S_ISDIR(status.st_mode)
    why = f"but {'a file in it' if folder else 'it'} can name programs that run as root"
    if status.st_mode & stat.S_IWOTH:
        return f"is writable by everybody {state}, {why}: chmod {'go' if usual else 'o'}-w {path}"
    if not usual:
        return ""
    if status.st_uid not in (0, os.geteuid()):
        return f"does not belong to root {state}, {why}: chown root {path}"
    if status.st_mode & stat.S_IWGRP:
        return f"is writable by its group {state}, {why}: chmod g-w {path}"
    needed = stat.S_IRUSR | (stat.S_IXUSR if folder else 0)
    if status.st_mode & needed != needed:
        return f"is not readable by its owner {state}, so not by the service: chmod u+{'rx' if folder else 'r'} {path}"
    return ""

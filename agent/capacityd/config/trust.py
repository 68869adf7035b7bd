"""Whether a file or a folder is safe from other users: it can name programs, which the service runs as root.

The service is root without CAP_DAC_OVERRIDE, so it also needs permission to read, unlike root in a shell.
"""

from __future__ import annotations

import os
import pwd
import stat


def untrusted(path: str, status: os.stat_result, usual: bool) -> str:
    """Why a configuration file or its folder is not used, with the command that mends it; "" if it is safe.

    usual: it is in one of the usual places. Another one was named by whoever started the command, so its owner does not
    matter there, nor that of its group.
    """
    state = f"({_described(status)})"
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


def owner_and_mode(path: str) -> str:
    """Owner and mode in parentheses, after a space; "" if they cannot be read."""
    try:
        return f" ({_described(os.stat(path))})"
    except OSError:
        return ""


def _described(status: os.stat_result) -> str:
    try:
        owner = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        owner = f"uid {status.st_uid}"
    return f"owner {owner}, mode {stat.S_IMODE(status.st_mode):04o}"

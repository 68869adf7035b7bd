"""Which files the sandbox of the service's unit hides from the service, although root can use them in a shell.

The settings come from systemd, so that they include all drop-ins.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from capacityd.linux.paths import is_inside
from capacityd.linux.permissions import why_unreadable_to_root
from capacityd.linux.unit import unit_properties

UNIT = "capacityd.service"
SANDBOX_PAGE = "/usr/share/doc/capacityd/docs/files-and-programs.md"
"""The page with the drop-ins that open the sandbox."""
_TIMEOUT = 1.0
"""Seconds for systemctl. A detector may ask for advice after the detector's program has timed out. The detector must
end within two seconds after the program's timeout (_TIMEOUT_MARGIN in discovery/child.py)."""
_STATUS = "/proc/self/status"
_SANDBOXED_LINE = "NoNewPrivs:\t1"
"""A line in the service's /proc/self/status (proc_pid_status(5)), because the unit sets NoNewPrivileges=. The file of
a root shell does not contain this line."""
_PSEUDO_DEVICES = "null zero full random urandom tty ptmx pts shm mqueue hugepages log fd stdin stdout stderr"
"""The names that PrivateDevices= leaves in /dev. Source: mount_private_dev() in systemd's src/core/namespace.c."""
_HIDING_VALUES = {
    "ProtectHome": ("yes", "tmpfs"),
    "PrivateTmp": ("yes", "connected", "disconnected"),
    "PrivateDevices": ("yes",),
}
"""Setting -> the values that hide folders. Source: systemd.exec(5)."""
_FOLDERS_HIDDEN_BY = {
    "ProtectHome": ("/home", "/root", "/run/user"),
    "PrivateTmp": ("/tmp", "/var/tmp"),  # noqa: S108  # no file is created
    "PrivateDevices": ("/dev",),
}
"""Setting -> the folders that the setting hides with one of its _HIDING_VALUES. Source: systemd.exec(5)."""
_HIDING_SETTINGS = ("InaccessiblePaths", "TemporaryFileSystem")
"""The settings whose values are hidden folders."""
_SHOWING_SETTINGS = ("BindPaths", "BindReadOnlyPaths")
"""The settings whose values are visible, although a folder above them may be hidden."""
_CAPABILITIES = "CapabilityBoundingSet"
_MAY_READ_ALL = "cap_dac_read_search"
"""The capability that opens the files of other users (capabilities(7))."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What the unit's settings hide from the service."""

    hidden: tuple[str, ...] = ()
    """Folders that the service does not see."""
    visible: tuple[str, ...] = ()
    """Folders and files that the service sees although a folder above them is hidden."""
    may_read_all: bool = False
    """Whether the service may read the files of other users whatever their modes."""

    def hides(self, path: str) -> bool:
        """Whether the service can't see or can't read a path."""
        real_path = os.path.realpath(path)
        hidden_length = _nearest_length(real_path, self.hidden)
        visible_length = _nearest_length(real_path, self.visible)
        if hidden_length > visible_length:  # the folder nearest to the path is a hidden one
            return True
        if self.may_read_all:
            return False
        return why_unreadable_to_root(path) != ""


def _nearest_length(path: str, folders: Iterable[str]) -> int:
    """The length of the nearest (longest) of these folders above a path; 0 if none of them is above the path."""
    return max((len(folder) for folder in folders if is_inside(path, folder)), default=0)


def service_sandbox() -> Sandbox:
    """The sandbox of the service's unit. Without systemd, or without the unit, the sandbox hides no folders."""
    names = (*_FOLDERS_HIDDEN_BY, *_HIDING_SETTINGS, *_SHOWING_SETTINGS, _CAPABILITIES)
    settings = unit_properties(UNIT, names, timeout=_TIMEOUT)
    hidden: list[str] = []
    for name in _HIDING_SETTINGS:
        hidden += _mount_points_in(settings.get(name, ""))
    for name, folders in _FOLDERS_HIDDEN_BY.items():
        if settings.get(name) in _HIDING_VALUES[name]:
            hidden += folders
    visible = [f"/dev/{name}" for name in _PSEUDO_DEVICES.split()]
    for name in _SHOWING_SETTINGS:
        visible += _mount_points_in(settings.get(name, ""))
    may_read_all = _MAY_READ_ALL in settings.get(_CAPABILITIES, "").split()
    return Sandbox(hidden=tuple(hidden), visible=tuple(visible), may_read_all=may_read_all)


def hidden_path_message(path: str) -> str:
    """The message about a path that the sandbox hides."""
    return f"the sandbox of {UNIT} hides {path}: {SANDBOX_PAGE} says how to show it"


def sandbox_advice(paths: Sequence[str], *, program_failed: bool = False) -> str:
    """The end of a message about a failure that the sandbox may have caused; "" if the sandbox can't be the cause.

    paths: the files that could not be read, or the command of a program. program_failed: whether the program failed.
    """
    if not is_sandboxed():
        return ""
    sandbox = service_sandbox()
    for path in paths:
        if path.startswith("/") and sandbox.hides(path):
            return f" ({hidden_path_message(path)})"
    if program_failed:  # the program may need a file that the sandbox hides
        return f" (it ran in the sandbox of {UNIT}: see {SANDBOX_PAGE})"
    return ""


def is_sandboxed() -> bool:
    """Whether this process runs in the service's sandbox."""
    with open(_STATUS, encoding="utf-8", errors="replace") as file:
        return any(line.rstrip("\n") == _SANDBOXED_LINE for line in file)


def _mount_points_in(mounts: str) -> Iterator[str]:
    """Yields the mount points of bind mounts or temporary file systems.

    mounts: the text that systemctl shows. Each mount is SOURCE:DESTINATION:OPTIONS, or only DESTINATION:OPTIONS for a
    temporary file system, or only a path. A "-" before a mount makes it optional.
    """
    for mount in mounts.split():
        source, _, rest = mount.lstrip("-").partition(":")
        destination, _, _options = rest.partition(":")
        has_destination = destination.startswith("/")
        yield destination if has_destination else source

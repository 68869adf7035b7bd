"""The sandbox of the service's unit: what it hides, and the drop-in that opens it.

Root in a shell can use files below /tmp or /root, but the service can't, so a message about a file there says this. The
settings come from systemd, so that they include all drop-ins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from capacityd.linux.paths import is_inside
from capacityd.linux.permissions import why_unreadable_to_root
from capacityd.linux.unit import unit_properties

UNIT = "capacityd.service"
_TIMEOUT = 1.0
"""Seconds for systemctl. A detector asks for advice after its program has failed, and may then take two seconds more
than the program's timeout (discovery/child.py)."""
_STATUS = "/proc/self/status"
_SANDBOXED_LINE = "NoNewPrivs:\t1"
"""A line in /proc/self/status (proc_pid_status(5)). The unit sets NoNewPrivileges=, which a shell of root lacks."""
_DEVICES = "/dev"
_PSEUDO_NAMES = (
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue", "hugepages", "log",
    "fd", "stdin", "stdout", "stderr",
)  # fmt: skip
_PSEUDO_DEVICES = tuple(f"{_DEVICES}/{name}" for name in _PSEUDO_NAMES)
"""What PrivateDevices= leaves in /dev: mount_private_dev() in systemd's src/core/namespace.c."""
_SHARED = ("/tmp", "/var/tmp")  # noqa: S108  # no file is created
"""Folders in which everybody may create files."""
_HIDDEN_BY = {
    "ProtectHome": (("yes", "tmpfs"), ("/home", "/root", "/run/user")),
    "PrivateTmp": (("yes", "connected", "disconnected"), _SHARED),
    "PrivateDevices": (("yes",), (_DEVICES,)),
}
"""Setting -> the values that hide folders, and these folders. Source: systemd.exec(5)."""
_BINDS = ("BindPaths", "BindReadOnlyPaths")
_ADVICE_FOR_PROGRAM = (
    " (it ran in the service's sandbox, which may deny what works in a shell of root, such as a write, or code that is "
    "compiled at run time, as in Java and Node.js: `systemctl edit capacityd` extends the sandbox, for example with "
    'the lines "[Service]" and "ReadWritePaths=FOLDER" or "MemoryDenyWriteExecute=no"; for exec, '
    "`capacityd probe --as-service` shows the result)"
)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What the unit's settings hide from the service."""

    hidden: dict[str, str] = field(default_factory=dict)
    """Folder that the service does not see -> the setting that hides it."""
    visible: tuple[str, ...] = ()
    """Folders and files that are visible although a folder above is hidden."""

    def hiding(self, path: str) -> str:
        """The folder that hides a path from the service; "" if the service sees the path."""
        real = os.path.realpath(path)
        hidden_above = [folder for folder in self.hidden if is_inside(real, folder)]
        visible_above = [folder for folder in self.visible if is_inside(real, folder)]
        # The longest path decides, because it is the nearest to the file.
        nearest_hidden = max(hidden_above, key=len, default="")
        nearest_visible = max(visible_above, key=len, default="")
        return nearest_hidden if len(nearest_hidden) > len(nearest_visible) else ""

    def advice(self, path: str, *, runs: bool = False) -> str:
        """Why the service does not see a path, and how to change this; "" if the service sees the path.

        runs: whether a program was to be run, and its command contains the path.
        """
        hidden = self.hiding(path)
        if not hidden:
            return ""
        folder = os.path.dirname(os.path.realpath(path))
        if hidden == _DEVICES:
            other_place = "use a path in /sys instead"
            setting = "PrivateDevices=no"
        else:
            other_place = "move the file to another folder"
            setting = f"BindReadOnlyPaths={_in_a_unit(folder)}"
        why = (
            f"the service's sandbox hides {hidden} ({self.hidden[hidden]}), so {path} works only outside of the service"
        )
        if runs and folder in _SHARED:  # the service runs no program from a folder where everybody may create files
            return f"{why}: {other_place}"
        return (
            f"{why}: {other_place}, or run `systemctl edit capacityd`, add the lines "
            f'"[Service]" and "{setting}", and restart the service'
        )


def service_sandbox() -> Sandbox:
    """The sandbox of the service's unit; one that hides nothing if there is no systemd or no unit."""
    settings = unit_properties(UNIT, (*_HIDDEN_BY, *_BINDS), timeout=_TIMEOUT)
    hidden: dict[str, str] = {}
    for name, (values, folders) in _HIDDEN_BY.items():
        if settings.get(name) in values:
            hidden |= dict.fromkeys(folders, f"{name}={settings[name]}")
    binds = _destinations(" ".join(settings.get(name, "") for name in _BINDS))
    return Sandbox(hidden=hidden, visible=(*_PSEUDO_DEVICES, *binds))


def sandbox_advice(paths: Sequence[str], *, program_failed: bool = False) -> str:
    """Why the service's sandbox may be the reason of a failure, as the end of a message; "" outside of the sandbox.

    paths: what could not be read. program_failed: whether paths is the command of a program that failed.
    """
    if not is_sandboxed():
        return ""
    absolute_paths = [path for path in paths if path.startswith("/")]
    sandbox = Sandbox()  # hides nothing
    if any(map(_may_be_hidden, absolute_paths)):
        sandbox = service_sandbox()  # systemctl takes 10 ms, so only a path that may be hidden needs it
    for path in absolute_paths:
        advice = sandbox.advice(path, runs=program_failed)
        if not advice:
            advice = why_unreadable_to_root(path)
        if advice:
            return f" ({advice})"
    return _ADVICE_FOR_PROGRAM if program_failed else ""


def _may_be_hidden(path: str) -> bool:
    """Whether the service's sandbox hides the path with some of the possible settings."""
    folders = (folder for _, hidden in _HIDDEN_BY.values() for folder in hidden)
    return any(is_inside(os.path.realpath(path), folder) for folder in folders)


def is_sandboxed() -> bool:
    """Whether this process runs in the service's sandbox."""
    with open(_STATUS, encoding="utf-8", errors="replace") as file:
        return any(line.rstrip("\n") == _SANDBOXED_LINE for line in file)


def _in_a_unit(path: str) -> str:
    """A path as a setting of a unit names it (systemd.syntax(7), "Quoting", and systemd.unit(5), "Specifiers")."""
    return "".join(f"\\{c}" if c in " '\"\\:" else c for c in path).replace("%", "%%")


def _destinations(binds: str) -> Iterator[str]:
    """Yields the destinations of bind mounts.

    binds: as systemctl shows them, SOURCE:DESTINATION:OPTIONS or only SOURCE, with a "-" before it if optional.
    """
    for bind in binds.split():
        source, _, rest = bind.lstrip("-").partition(":")
        yield rest.partition(":")[0] or source

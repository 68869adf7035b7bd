"""The state of a systemd unit, and the settings in the file of one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_TIMEOUT = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class UnitState:
    """A unit's properties, from systemctl(1)."""

    enabled: bool
    """Whether the unit is started at boot, because it is enabled or another unit wants it."""
    failing: bool
    """Whether the unit has failed, or will soon be restarted after a failure."""
    exit_status: int
    """The exit status of the unit's last main process; 0 if there was none."""
    masked: bool = False
    """Whether systemd refuses to start the unit."""
    active: bool = False
    """Whether the unit runs, or reloads its configuration."""


def assignments(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yields section, name and value of each setting in the file of a unit, as systemd reads it (systemd.syntax(7)).

    The section has its brackets: [Mount]. A line that ends with a backslash continues in the next line that is no
    comment.
    """
    section = ""
    continued = ""  # the lines before this one, if the last of them ends with a backslash
    for line in (*lines, ""):  # the empty line ends a setting whose last line ends with a backslash
        stripped = line.strip()
        if stripped.startswith(("#", ";")):
            continue
        joined = continued + stripped
        continued = ""
        if joined.endswith("\\"):
            continued = joined[:-1] + " "
        elif joined.startswith("["):
            section = joined
        elif "=" in joined:
            name, _, value = joined.partition("=")
            yield section, name.rstrip(), value.strip()


def unit_state(unit: str) -> UnitState | None:
    """Returns the state of a unit; None if there is no systemd, or the unit does not exist."""
    names = ("LoadState", "UnitFileState", "ActiveState", "SubState", "ExecMainStatus", "WantedBy", "RequiredBy")
    command = ["systemctl", "show", f"--property={','.join(names)}", unit]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    values = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    file_state = values.get("UnitFileState")
    masked = "masked" in values.get("LoadState", "")
    if values.get("LoadState") != "loaded" and not masked:
        return None
    # The links of these states are in /run, so they do not start the unit at the next boot.
    until_reboot = file_state in ("enabled-runtime", "linked-runtime", "masked")
    wanted_by_others = bool(values.get("WantedBy") or values.get("RequiredBy"))
    enabled = file_state == "enabled" or (wanted_by_others and not until_reboot)
    return UnitState(
        enabled=enabled and not masked,
        failing=values.get("ActiveState") == "failed" or values.get("SubState") == "auto-restart",
        exit_status=int(values.get("ExecMainStatus") or 0),
        masked=masked,
        active=values.get("ActiveState") in ("active", "reloading"),
    )

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
    """Whether the unit is started at boot."""
    failing: bool
    """Whether the unit has failed, or will soon be restarted after a failure."""
    exit_status: int
    """The exit status of the unit's last main process; 0 if there was none."""


def assignments(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yields section, name and value of each setting in the file of a unit, as systemd reads it (systemd.syntax(7)).

    Section as in [Mount]. A line that ends with a backslash continues in the next line that is no comment.
    """
    section = continued = ""
    for line in (*lines, ""):
        stripped = line.strip()
        if stripped.startswith(("#", ";")):
            continue
        joined, continued = continued + stripped, ""
        if joined.endswith("\\"):
            continued = joined[:-1] + " "
        elif joined.startswith("["):
            section = joined
        elif "=" in joined:
            name, _, value = joined.partition("=")
            yield section, name.rstrip(), value.strip()


def unit_state(unit: str) -> UnitState | None:
    """Returns the state of a unit; None if there is no systemd, or the unit does not exist."""
    names = ("LoadState", "UnitFileState", "ActiveState", "SubState", "ExecMainStatus")
    command = ["systemctl", "show", f"--property={','.join(names)}", unit]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    values = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if values.get("LoadState") != "loaded":
        return None
    return UnitState(
        enabled=values.get("UnitFileState") in ("enabled", "enabled-runtime"),
        failing=values.get("ActiveState") == "failed" or values.get("SubState") == "auto-restart",
        exit_status=int(values.get("ExecMainStatus") or 0),
    )
